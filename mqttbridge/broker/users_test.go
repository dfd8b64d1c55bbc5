package broker_test

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// TestUsersFileLater: a file that changed and could not be read, for a reason that is not its own, is read as soon as it can be.
func TestUsersFileLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	usersFile(t, path, "ann", "secret-1")
	var log bytes.Buffer
	users, err := broker.NewUsers(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	login := func(name string) bool {
		return users.Login(t.Context(), "a", name, []byte("secret-1"), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}) == nil
	}
	usersFile(t, path, "eve", "secret-1")
	func() {
		defer withoutDescriptors(t)()
		testwait.Until(t, "a look at the file", func() bool {
			if !login("ann") {
				t.Error("a user from before cannot log in")
			}
			return strings.Contains(log.String(), "too many open files")
		})
	}()
	testwait.Until(t, "the change", func() bool { return login("eve") })
	if login("ann") {
		t.Error("a user that was removed can log in")
	}
}

// withoutDescriptors lets the process open nothing more until restore is called.
func withoutDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
}
