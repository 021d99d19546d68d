//go:build unix

// Command pgrun runs a command beside a temporary PostgreSQL server, whose URL
// the command finds in TIDEMARK_TEST_POSTGRES. It exits as the command does.
//
//	pgrun [-memory] COMMAND [ARGUMENT…]
//
// With -memory the server keeps its files in memory where the system has room
// for them there, which makes a new database three times as fast. That suits
// tests; what is measured belongs on a disk.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tidemarkd/tidemark/internal/pgtest"
)

// Files in memory are at least a cluster, its write-ahead log and some databases.
const (
	memoryDir  = "/dev/shm"
	memoryNeed = 3 << 30 // bytes
)

func main() {
	memory := flag.Bool("memory", false, "keep the server's files in memory, where there is room")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: pgrun [-memory] COMMAND [ARGUMENT…]")
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	dir := ""
	if *memory && free(memoryDir) >= memoryNeed {
		dir = memoryDir
	}
	err := pgtest.Run(dir, func(serverURL string) error {
		return run(flag.Args(), serverURL)
	})
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.ExitCode() > 0:
		os.Exit(failed.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		os.Exit(1)
	}
}

// free is the number of bytes that a file system has left, 0 where it is none.
func free(dir string) uint64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return st.Bavail * uint64(st.Bsize)
}

// run waits for the command. Signals of the terminal reach it directly, and
// SIGTERM is passed on, so that it can end in order and the server after it.
func run(args []string, serverURL string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), pgtest.EnvURL+"="+serverURL)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if s == syscall.SIGTERM {
				cmd.Process.Signal(s) //nolint:errcheck // it may just have ended
			}
		}
	}
}
