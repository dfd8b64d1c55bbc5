package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/mqtt/access"
)

func login(user, password string) access.Login {
	return access.Login{ClientID: "c", User: user, Password: []byte(password), Remote: netip.MustParseAddr("192.0.2.1")}
}

// TestLoginStorm lets a fleet that shares a password come at once, and then somebody who guesses.
func TestLoginStorm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "fleet", "secret")
	synctest.Test(t, func(t *testing.T) {
		a := start(t, access.Config{Users: path})
		release := a.Occupy()
		var coming sync.WaitGroup
		for range 5000 {
			coming.Go(func() {
				if _, err := a.Login(t.Context(), login("fleet", "secret")); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		release()
		coming.Wait() // one was checked, and none was told to come again
		defer a.Occupy()()
		if _, ok, err := a.Decide(login("fleet", "secret")); !ok || err != nil {
			t.Errorf("Decide = %v, %v, want what was remembered", ok, err)
		}
		errs := make(chan error, 2*512)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range cap(errs) {
			l := login(fmt.Sprint("user-", i), fmt.Sprint("wrong-", i))
			l.Remote = netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 250)}) // so that no address is the reason
			coming.Go(func() { _, err := a.Login(ctx, l); errs <- err })
		}
		synctest.Wait()
		cancel()
		coming.Wait()
		close(errs)
		busy, waited := 0, 0
		for err := range errs {
			switch {
			case errors.Is(err, access.ErrBusy):
				busy++
			case errors.Is(err, context.Canceled):
				waited++
			default:
				t.Errorf("Login = %v", err)
			}
		}
		if want := 512; waited != want || busy != cap(errs)-want {
			t.Errorf("%d waited, %d were told to come again, want %d and %d", waited, busy, want, cap(errs)-want)
		}
	})
}

// TestGuessing: who tries many passwords at once, for a user and for some who are none, keeps no
// other user out, not even from his own address, nor the one whose password he tries from
// elsewhere.
func TestGuessing(t *testing.T) {
	tests := []struct {
		name, from, same, elsewhere, shown string
	}{
		{"IPv4", "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "192.0.2.1"},
		{"IPv6", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8::"},
		{"IPv6 with a zone", "fe80::1%a", "fe80::1%b", "2001:db8::1", "fe80::"},
	}
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "ann", "secret-1", "bob", "secret-2")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { guess(t, path, tt.from, tt.same, tt.elsewhere, tt.shown) })
		})
	}
}

func guess(t *testing.T, path, from, same, elsewhere, shown string) {
	t.Helper()
	var log bytes.Buffer
	a := start(t, access.Config{Users: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	release := a.Occupy()
	errs := make(chan error, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var guessing sync.WaitGroup
	try := func(ctx context.Context, remote, user, password string) error {
		l := login(user, password)
		l.Remote = netip.MustParseAddr(remote)
		_, err := a.Login(ctx, l)
		return err
	}
	for i := range cap(errs) {
		user, remote := "ann", from
		if i%2 > 0 {
			user = fmt.Sprint("nobody-", i)
		}
		if i%3 > 0 {
			remote = same
		}
		guessing.Go(func() { errs <- try(ctx, remote, user, fmt.Sprint("guess-", i)) })
	}
	synctest.Wait() // 8 for ann and 8 for the others wait
	if len(errs) != cap(errs)-16 {
		t.Errorf("%d are done, want %d", len(errs), cap(errs)-16)
	}
	for range len(errs) {
		if err := <-errs; !errors.Is(err, access.ErrBusy) {
			t.Errorf("Login = %v, want ErrBusy", err)
		}
	}
	if err := try(t.Context(), from, "ann", "secret-1"); !errors.Is(err, access.ErrBusy) {
		t.Errorf("the user from the same address: %v, want ErrBusy", err)
	}
	var others sync.WaitGroup
	others.Go(func() {
		if err := try(t.Context(), from, "bob", "secret-2"); err != nil {
			t.Errorf("another user from the same address: %v", err)
		}
	})
	others.Go(func() {
		if err := try(t.Context(), elsewhere, "ann", "secret-1"); err != nil {
			t.Errorf("the user from elsewhere: %v", err)
		}
	})
	synctest.Wait()
	release()
	others.Wait()
	guessing.Wait()
	if !a.Idle() {
		t.Error("something is left of checks that are over")
	}
	if err := try(t.Context(), from, "ann", "secret-1"); err != nil {
		t.Errorf("the user from the same address, afterwards: %v", err)
	}
	if !strings.Contains(log.String(), "address="+shown+" times=1\n") {
		t.Errorf("the log does not say who was told to come again:\n%s", log.String())
	}
}

// TestLoginLeaves: if the one whose password is checked leaves, those who said the same are not
// left alone.
func TestLoginLeaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "ann", "secret-1")
	synctest.Test(t, func(t *testing.T) {
		a := start(t, access.Config{Users: path})
		release := a.Occupy()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := a.Login(ctx, login("ann", "secret-1")); !errors.Is(err, context.Canceled) {
				t.Errorf("Login of the first = %v, want Canceled", err)
			}
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				if _, err := a.Login(t.Context(), login("ann", "secret-1")); err != nil {
					t.Errorf("Login of another = %v", err)
				}
			})
		}
		all.Go(func() {
			if _, err := a.Login(ctx, login("ann", "secret-1")); !errors.Is(err, context.Canceled) {
				t.Errorf("Login of one that waits = %v, want Canceled", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		all.Wait()
		if !a.Idle() {
			t.Error("something is left of checks that are over")
		}
	})
}

// TestUnknownUserWaits: a password is computed for an unknown user, too.
func TestUnknownUserWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "ann", "secret-1")
	synctest.Test(t, func(t *testing.T) {
		a := start(t, access.Config{Users: path})
		for _, user := range []string{"ann", "eve"} {
			if _, ok, _ := a.Decide(login(user, "wrong")); ok {
				t.Errorf("Decide about user %s needs no password", user)
			}
			release := a.Occupy()
			done := make(chan error, 1)
			go func() {
				_, err := a.Login(t.Context(), login(user, "wrong"))
				done <- err
			}()
			synctest.Wait()
			select {
			case err := <-done:
				t.Errorf("Login of user %s did not wait for its turn: %v", user, err)
				done <- err
			default:
			}
			release()
			if err := <-done; !errors.Is(err, access.ErrDenied) {
				t.Errorf("Login of user %s = %v, want ErrDenied", user, err)
			}
		}
	})
}

// TestRemembered: a right password is not computed again for ten minutes.
func TestRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "ann", "secret-1", "bob", "secret-2")
	synctest.Test(t, func(t *testing.T) {
		a := start(t, access.Config{Users: path})
		decided := func(l access.Login) bool { _, ok, err := a.Decide(l); return ok && err == nil }
		if decided(login("ann", "secret-1")) {
			t.Error("a password is right that was not computed")
		}
		if _, err := a.Login(t.Context(), login("ann", "secret-1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute - time.Nanosecond)
		if !decided(login("ann", "secret-1")) {
			t.Error("a right password is forgotten early")
		}
		for _, l := range []access.Login{login("ann", "secret-2"), login("bob", "secret-1"), login("bob", "secret-2"), login("an", "nsecret-1")} {
			if decided(l) {
				t.Errorf("password %s of %s counts as right", l.Password, l.User)
			}
		}
		time.Sleep(time.Nanosecond)
		if decided(login("ann", "secret-1")) {
			t.Error("a right password is remembered for too long")
		}
		_, most := a.Remembered()
		for i := range most + 10 {
			a.Remember("ann", strconv.Itoa(i))
		}
		if n, _ := a.Remembered(); n > most || n < most/2 {
			t.Errorf("%d are remembered, want at most %d, and not much less", n, most)
		}
		if !decided(login("ann", strconv.Itoa(most+9))) {
			t.Error("the last one was forgotten")
		}
	})
}

// TestFlood: guesses from many addresses take all places, and keep a user from elsewhere out of none.
func TestFlood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "ann", "secret-1")
	synctest.Test(t, func(t *testing.T) {
		a := start(t, access.Config{Users: path})
		ctx, cancel := context.WithCancel(t.Context())
		var guessing sync.WaitGroup
		flood := func(guesses int) {
			for i := range 75 * guesses {
				l := login("mallory", fmt.Sprint("guess-", i, "-of-", guesses))
				l.Remote = netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i/guesses)})
				guessing.Go(func() { _, _ = a.Login(ctx, l) })
			}
			synctest.Wait()
		}
		flood(1)
		release := a.Occupy()
		flood(8)
		admitted := make(chan error, 1)
		go func() {
			_, err := a.Login(t.Context(), login("ann", "secret-1"))
			admitted <- err
		}()
		synctest.Wait()
		release()
		if err := <-admitted; err != nil {
			t.Errorf("the user among guesses: %v", err)
		}
		cancel()
		guessing.Wait()
		if !a.Idle() {
			t.Error("something is left of checks that are over")
		}
	})
}

// TestLockout: a minute's wrong passwords for a user lock him out from their address, whether he is
// known or not; a device that repeats one wrong password does not.
func TestLockout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	writeUsers(t, path, "ann", "secret-1", "bob", "secret-2")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := start(t, access.Config{Users: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		try := func(remote, user, password string) error {
			l := login(user, password)
			l.Remote = netip.MustParseAddr(remote)
			_, err := a.Login(t.Context(), l)
			return err
		}
		for range 1000 {
			if err := try("192.0.2.1", "ann", "old secret"); !errors.Is(err, access.ErrDenied) {
				t.Fatalf("Login with a repeated wrong password = %v, want ErrDenied", err)
			}
		}
		if err := try("192.0.2.1", "ann", "secret-1"); err != nil {
			t.Errorf("Login after a repeated wrong password: %v", err)
		}
		for i := range 60 {
			for _, user := range []string{"ann", "eve"} {
				_ = try("192.0.2.1", user, fmt.Sprint("guess-", i))
			}
		}
		tests := []struct {
			remote, user, password string
			want                   error
		}{
			{"192.0.2.1", "ann", "secret-1", access.ErrLocked}, // although it is remembered as right
			{"192.0.2.1", "ann", "guess-1", access.ErrLocked},
			{"192.0.2.1", "eve", "guess-1", access.ErrLocked}, // which shows nobody who is a user
			{"192.0.2.2", "ann", "secret-1", nil},
			{"192.0.2.1", "bob", "secret-2", nil},
		}
		for _, tt := range tests {
			if err := try(tt.remote, tt.user, tt.password); !errors.Is(err, tt.want) {
				t.Errorf("Login(%s, %s, %s) = %v, want %v", tt.remote, tt.user, tt.password, err, tt.want)
			}
		}
		if !strings.Contains(log.String(), "locked out") || !strings.Contains(log.String(), "user=ann address=192.0.2.1 times=1 ") {
			t.Errorf("the log does not say who is locked out:\n%s", log.String())
		}
		time.Sleep(2 * time.Minute)
		if err := try("192.0.2.1", "ann", "secret-1"); err != nil {
			t.Errorf("Login two minutes later: %v", err)
		}
	})
}

// TestGrantsShared: what many clients have in common takes memory once.
func TestGrantsShared(t *testing.T) {
	users, rules := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "rules")
	writeUsers(t, users, "fleet", "secret", "other", "secret")
	write(t, rules, "rules: [{everyone: true, publish: [a, '%u/b']}, {users: [other], publish: ['%c']}]")
	for _, c := range []access.Config{{Anonymous: access.Anyone, Users: users}, {Anonymous: access.Anyone, Users: users, Rules: rules}} {
		a := start(t, c)
		share := func(user string) bool {
			var grants [2]*access.Grant
			for i := range grants {
				g, err := a.Login(t.Context(), access.Login{ClientID: fmt.Sprint("c", i), User: user, Password: []byte("secret")})
				if err != nil {
					t.Fatal(err)
				}
				grants[i] = g
			}
			return grants[0] == grants[1]
		}
		if !share("") || !share("fleet") {
			t.Error("clients with the same rights do not share a grant")
		}
		if got, want := share("other"), c.Rules == ""; got != want {
			t.Errorf("clients share a grant: %v, want %v", got, want)
		}
		for _, l := range []access.Login{{ClientID: "x"}, {ClientID: "x", User: "fleet", Password: []byte("secret")}} {
			if n := testing.AllocsPerRun(100, func() { _, _, _ = a.Decide(l) }); n != 0 {
				t.Errorf("Decide about user %q allocates %v times", l.User, n)
			}
		}
	}
}
