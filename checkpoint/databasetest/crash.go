package databasetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// Work plays a worker: it runs key after key, each once, from what the
// environment says is the first, until it is killed.
func Work(db checkpoint.Database) {
	from, err := strconv.Atoi(os.Getenv("CHECKPOINT_TEST_FROM"))
	if err != nil {
		panic(err)
	}
	statement, err := checkpoint.ParseStatement(insert)
	if err != nil {
		panic(err)
	}
	for n := from; ; n++ {
		_, err := db.Once(context.Background(), checkpoint.OnceRequest{
			Key: fmt.Sprint("k", n), Fingerprint: insert, ScheduledAt: fireTime, Attempt: 1, Statement: statement,
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(n)
	}
}

// crashes kills workers at random moments. The next one goes on with the key
// that the last had begun, as a new attempt does.
func crashes(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	next := 0
	for range 25 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		worker := exec.Command("/proc/self/exe")
		worker.Stdout, worker.Stderr = write, os.Stderr
		worker.Env = append(os.Environ(), "CHECKPOINT_TEST_FROM="+strconv.Itoa(next))
		f.Worker(worker)
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
		for range 3 { // let it get going
			var n int
			if _, err := fmt.Fscan(read, &n); err != nil {
				t.Fatal(err)
			}
			next = n + 1
		}
		<-time.After(time.Duration(rand.IntN(5000)) * time.Microsecond)
		if err := worker.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := worker.Wait(); !errors.As(err, &exit) {
			t.Fatal(err)
		}
		for {
			var n int
			if _, err := fmt.Fscan(read, &n); err != nil {
				break
			}
			next = n + 1
		}
		read.Close()
	}
	if _, err := db.Once(t.Context(), Request(t, fmt.Sprint("k", next), insert)); err != nil { // begun, perhaps done
		t.Error(err)
	}
	want(t, f, `SELECT count(*) FROM (SELECT id FROM effects GROUP BY id HAVING count(*) <> 2) AS wrong`, "0")
	want(t, f, `SELECT count(DISTINCT id) FROM effects`, strconv.Itoa(next+1))
}
