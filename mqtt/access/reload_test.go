package access_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/mqtt/access"
)

// server is an Access that runs in a bubble of synctest.
type server struct {
	*access.Access

	t            *testing.T
	users, rules string // paths
	log          logBuffer
}

// logBuffer is a buffer for several goroutines.
type logBuffer struct {
	mu sync.Mutex // guards the field below
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run calls f with an Access that looks at its files.
func run(t *testing.T, rules string, f func(s *server)) {
	t.Helper()
	s := &server{users: filepath.Join(t.TempDir(), "users"), rules: filepath.Join(t.TempDir(), "rules.yaml")}
	writeUsers(t, s.users, "ann", "secret-1", "bob", "secret-2")
	write(t, s.rules, rules)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.Access = start(t, access.Config{
			Users: s.users, Rules: s.rules, Anonymous: access.Anyone, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
			Token: func(id string, token []byte) bool { return string(token) == "token-of-"+id },
		})
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- s.Run(ctx) }()
		f(s)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// look lets the time pass in which files are read again, and returns whether the generation has
// changed.
func (s *server) look() bool {
	before := s.Generation()
	time.Sleep(time.Second)
	synctest.Wait()
	return s.Generation() != before
}

func (s *server) login(l access.Login) *access.Grant {
	s.t.Helper()
	g, err := s.Login(s.t.Context(), l)
	if err != nil {
		s.t.Fatalf("Login of %q: %v", l.User, err)
	}
	return g
}

// clients returns the grants of a client of each kind.
func (s *server) clients() map[string]*access.Grant {
	s.t.Helper()
	return map[string]*access.Grant{
		"ann":         s.login(login("ann", "secret-1")),
		"bob":         s.login(login("bob", "secret-2")),
		"token":       s.login(access.Login{ClientID: "dev-1", Password: []byte("token-of-dev-1")}),
		"certificate": s.login(access.Login{ClientID: "dev-2", Certificate: "dev-2"}),
		"anonymous":   s.login(access.Login{ClientID: "x"}),
	}
}

// TestReload: what changes in the files makes exactly those grants invalid that it concerns.
func TestReload(t *testing.T) {
	const rules = `
groups: {staff: [ann], devices: [dev-1, dev-2]}
rules:
  - {everyone: true, publish: ["a/%u", "b"]}
  - {groups: [staff], subscribe: ["#"]}
  - {users: [bob], publish: ["c/%c"]}
  - {groups: [devices], publish: ["d/%c"]}
  - {anonymous: true, publish: ["e"]}
`
	replace := func(old, with string) func(s *server) {
		return func(s *server) { write(s.t, s.rules, strings.Replace(rules, old, with, 1)) }
	}
	users := func(namesAndPasswords ...string) func(s *server) {
		return func(s *server) { writeUsers(s.t, s.users, namesAndPasswords...) }
	}
	tests := []struct {
		name    string
		change  func(s *server)
		invalid string // the clients concerned
	}{
		{"same users", users("bob", "secret-2", "ann", "secret-1"), ""},
		{"a user more", users("ann", "secret-1", "bob", "secret-2", "eve", "secret-3"), ""},
		{"a user less", users("ann", "secret-1"), "bob"},
		{"another password", users("ann", "secret-3", "bob", "secret-2"), "ann"},
		{"no user", users(), "ann bob"},
		{"a user with the name of a device", users("ann", "secret-1", "bob", "secret-2", "dev-1", "x", "dev-2", "x"), "token"},
		{"same rules", replace("rules:", "# comment\nrules:"), ""},
		{"a rule for others", replace("rules:", "rules:\n  - {users: [eve], publish: [f], client_ids: [x]}"), ""},
		{"another member", replace("[ann]", "[ann, eve]"), ""},
		{"a rule by another way", replace("groups: [staff]", "users: [ann]"), ""},
		{"a rule of one", replace("c/%c", "c/+"), "bob"},
		{"the rule of anonymous clients", replace("[\"e\"]", "[\"f\"]"), "anonymous"},
		{"a rule of a group", replace("d/%c", "d/#"), "token certificate"},
		{"a member less", replace("[dev-1, dev-2]", "[dev-1]"), "certificate"},
		{"a rule of all", replace("\"b\"", "\"c\""), "ann bob token certificate anonymous"},
		{"a client id", replace("{users: [bob],", "{users: [bob], client_ids: [z],"), "bob"},
		{"a deny", replace("{users: [bob],", "{users: [bob], deny_publish: [z],"), "bob"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, rules, func(s *server) {
				grants := s.clients()
				if s.look() {
					t.Error("the generation has changed without a reason")
				}
				tt.change(s)
				for name, g := range grants {
					if !g.Valid() {
						t.Errorf("%s is not valid before the file was read", name)
					}
				}
				if !s.look() {
					t.Fatal("the generation has not changed")
				}
				for name, g := range grants {
					want := !strings.Contains(" "+tt.invalid+" ", " "+name+" ")
					if got := g.Valid(); got != want {
						t.Errorf("%s is valid: %v, want %v", name, got, want)
					}
				}
			})
		})
	}
}

// TestReloadDecides: after a change, the new files decide.
func TestReloadDecides(t *testing.T) {
	run(t, "rules: [{everyone: true, publish: [a]}]", func(s *server) {
		old := s.login(login("ann", "secret-1"))
		writeUsers(t, s.users, "ann", "secret-3")
		write(t, s.rules, "rules: [{everyone: true, publish: [b]}]")
		s.look()
		for _, l := range []access.Login{login("ann", "secret-1"), login("bob", "secret-2")} {
			if _, err := s.Login(s.t.Context(), l); err == nil {
				t.Errorf("user %s may connect with %s", l.User, l.Password)
			}
		}
		g := s.login(login("ann", "secret-3"))
		if g.MayPublish("a") || !g.MayPublish("b") || !g.Valid() {
			t.Error("the grant is not that of the new rules")
		}
		write(t, s.rules, "rules: [{everyone: true, publish: [c]}]")
		s.look()
		if !s.login(login("ann", "secret-3")).MayPublish("c") {
			t.Error("the grant of a user who has not changed is not that of the new rules")
		}
		if old.MayPublish("b") || old.Valid() {
			t.Error("the old grant has changed")
		}
		write(t, s.rules, "rules: [{everyone: true, publish: [a]}]")
		writeUsers(t, s.users, "ann", "secret-1")
		s.look()
		if old.Valid() || g.Valid() || !s.login(login("ann", "secret-1")).MayPublish("a") {
			t.Error("what was changed back is not as new")
		}
	})
}

// TestRenew: who is connected is judged by the new rules.
func TestRenew(t *testing.T) {
	run(t, "rules: [{everyone: true, publish: [a]}]", func(s *server) {
		grants := s.clients()
		writeUsers(t, s.users, "bob", "secret-3", "dev-1", "x")
		write(t, s.rules, "rules: [{everyone: true, publish: ['b/%c']}, {users: [dev-2], client_ids: [y]}]")
		s.look()
		for name, want := range map[string]error{"ann": access.ErrDenied, "bob": access.ErrDenied, "token": access.ErrDenied, "certificate": access.ErrClientID, "anonymous": nil} {
			g, err := s.Renew(grants[name], "x")
			if !errors.Is(err, want) || (g == nil) != (err != nil) {
				t.Errorf("Renew for %s = %v, want %v", name, err, want)
			}
		}
		g, err := s.Renew(grants["certificate"], "y")
		if err != nil || !g.Valid() || !g.Proved() || g.User() != "dev-2" || g.MayPublish("a") || g.MayPublish("b/x") || !g.MayPublish("b/y") {
			t.Errorf("the new grant is not that of the new rules: %v", err)
		}
		if same, err := s.Renew(s.login(login("bob", "secret-3")), "x"); err != nil || !same.Valid() || same.User() != "bob" {
			t.Errorf("Renew of what has not changed: %v", err)
		}
	})
}

// TestRecall: who connected before the start is judged by the new rules, too.
func TestRecall(t *testing.T) {
	run(t, "rules: [{everyone: true, publish: [a]}, {users: [dev-1], publish: [b]}]", func(s *server) {
		grants := map[string]*access.Grant{}
		for _, user := range []string{"ann", "dev-1", ""} {
			grants[user] = s.Recall(user)
			if g, err := s.Renew(grants[user], "x"); err != nil || g.User() != user || g.Proved() != (user != "") || !g.MayPublish("a") || g.MayPublish("b") != (user == "dev-1") {
				t.Errorf("Renew of what is recalled for %q: %v", user, err)
			}
		}
		writeUsers(t, s.users, "bob", "secret-3")
		write(t, s.rules, "rules: [{anonymous: true, publish: [c]}]")
		s.look()
		if _, err := s.Renew(grants["ann"], "x"); !errors.Is(err, access.ErrDenied) {
			t.Errorf("Renew for a user who was removed = %v, want ErrDenied", err)
		}
		for user, may := range map[string]bool{"dev-1": false, "": true} {
			if g, err := s.Renew(grants[user], "x"); err != nil || g.MayPublish("a") || g.MayPublish("c") != may {
				t.Errorf("Renew for %q is not by the new rules: %v", user, err)
			}
		}
	})
}

// TestWrongFiles: a file that is wrong, or gone, is logged once, and what held before stays in
// effect.
func TestWrongFiles(t *testing.T) {
	const right = "rules: [{everyone: true, publish: [a]}]"
	run(t, right, func(s *server) {
		grants := s.clients()
		for range 2 {
			write(t, s.users, "nonsense\n")
			write(t, s.rules, "nonsense: true\n")
			for range 3 {
				if s.look() {
					t.Error("the generation has changed")
				}
			}
		}
		for _, path := range []string{s.users, s.rules} {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if s.look() {
				t.Error("the generation has changed")
			}
		}
		for name, g := range grants {
			if !g.Valid() {
				t.Errorf("%s is not valid any more", name)
			}
		}
		for _, want := range []string{"line 1: there is no colon", "unknown key", "users: no such file or directory", "rules.yaml: no such file or directory"} {
			if got := strings.Count(s.log.String(), want); got != 1 {
				t.Errorf("%q stands in the log %d times, want 1:\n%s", want, got, s.log.String())
			}
		}
		writeUsers(t, s.users, "ann", "secret-1")
		write(t, s.rules, right)
		if !s.look() || !grants["ann"].Valid() || grants["bob"].Valid() {
			t.Error("files that are right again do not decide")
		}
		if got := strings.Count(s.log.String(), "file of the MQTT server read again"); got != 2 {
			t.Errorf("%d files were read, want 2:\n%s", got, s.log.String())
		}
		for again := range 2 {
			write(t, s.users, "nonsense\n")
			s.look()
			if got := strings.Count(s.log.String(), "line 1: there is no colon"); got != 2+again {
				t.Errorf("a file that is wrong once more stands in the log %d times, want %d:\n%s", got, 2+again, s.log.String())
			}
			writeUsers(t, s.users, "ann", "secret-1")
			s.look()
		}
	})
}

// TestUsersFileLater: a file that changed and could not be read, for a reason that is not its own,
// is read as soon as it can be.
func TestUsersFileLater(t *testing.T) {
	run(t, "rules: [{everyone: true, publish: [a]}]", func(s *server) {
		g := s.login(login("ann", "secret-1"))
		writeUsers(t, s.users, "eve", "secret-1")
		func() {
			defer withoutDescriptors(t)()
			if s.look() || !g.Valid() {
				t.Error("a file that cannot be read has changed something")
			}
			if !strings.Contains(s.log.String(), "too many open files") {
				t.Errorf("the log does not say why the file cannot be read:\n%s", s.log.String())
			}
		}()
		if !s.look() || g.Valid() {
			t.Error("a user that was removed is still valid")
		}
		s.login(login("eve", "secret-1"))
	})
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

// TestWhileReloading: everything may be called while the files are read.
func TestWhileReloading(t *testing.T) {
	users, rules := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "rules.yaml")
	writeUsers(t, users, "ann", "secret-1", "bob", "secret-2")
	write(t, rules, "rules: [{everyone: true, publish: [a]}]")
	a := start(t, access.Config{Users: users, Rules: rules, Anonymous: access.Anyone})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, l := range []access.Login{login("ann", "secret-1"), login("bob", "secret-2"), {ClientID: "x"}, {ClientID: "x", Certificate: "x"}} {
		all.Go(func() {
			for generation := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				g, err := a.Login(t.Context(), l)
				if err != nil {
					t.Error(err)
					return
				}
				if !g.MayPublish("a") || g.MaySubscribe("b") {
					t.Error("a grant is not of this user")
				}
				g.Valid()
				if next := a.Generation(); next < generation {
					t.Error("the generation went back")
				} else {
					generation = next
				}
			}
		})
	}
	for i := range 100 {
		passwords := []string{"ann", "secret-1", "bob", "secret-2", "eve", "x"}
		writeUsers(t, users, passwords[:4+2*(i%2)]...)
		write(t, rules, "rules: [{everyone: true, publish: [a, '"+strings.Repeat("c", 1+i)+"']}]")
		_ = a.Look() // its mistakes are not what is tested
	}
	close(stop)
	all.Wait()
	if got := a.Generation(); got != 101 {
		t.Errorf("Generation = %d, want 101", got)
	}
}
