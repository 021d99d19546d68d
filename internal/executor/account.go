package executor

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that a command runs as. The zero value is the daemon's.
type account struct {
	name, home, shell string
	uid, gid          uint32
	groups            []uint32
}

// lookupAccount finds a user by name or number in the system's files. The
// binary has no C library, so it knows no users of a directory service.
func lookupAccount(name string) (account, error) {
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if _, notNumber := strconv.ParseUint(name, 10, 32); errors.As(err, &unknown) && notNumber == nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		return account{}, fmt.Errorf("run as user %s: there is no such user in /etc/passwd", name)
	}
	a := account{name: u.Username, home: u.HomeDir, shell: loginShell(u.Username)}
	groups, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("run as user %s: read its groups: %w", name, err)
	}
	numbers := make([]uint32, 0, len(groups)+2)
	for _, text := range slices.Concat([]string{u.Uid, u.Gid}, groups) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("run as user %s: %q is no id", name, text)
		}
		numbers = append(numbers, uint32(n))
	}
	a.uid, a.gid, a.groups = numbers[0], numbers[1], numbers[2:]
	return a, nil
}

// credential is nil where the daemon is that user already: to set even the
// same ids takes privileges.
func (a account) credential() *syscall.Credential {
	if int(a.uid) == os.Geteuid() {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
}

func (a account) environment() map[string]string {
	if a.name == "" {
		return nil
	}
	return map[string]string{"HOME": a.home, "USER": a.name, "LOGNAME": a.name, "SHELL": a.shell}
}

// loginShell is the last field of the user's line in passwd(5), which os/user
// does not give.
func loginShell(name string) string {
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return shellPath
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		field := strings.Split(lines.Text(), ":")
		if len(field) == 7 && field[0] == name && field[6] != "" {
			return field[6]
		}
	}
	return shellPath
}
