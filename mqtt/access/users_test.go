package access_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/bcrypt"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/mqtt/access"
)

// TestHashes: passwords are checked by hashes of several programs.
func TestHashes(t *testing.T) {
	ours, err := access.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	odd, err := access.HashPassword("pass:wörd")
	if err != nil {
		t.Fatal(err)
	}
	b, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	bcryptRest := strings.TrimPrefix(string(b), "$2a$")
	tests := []struct{ name, hash, password string }{
		{"ours", ours, "secret"},
		{"ours, odd", odd, "pass:wörd"},
		{"bcrypt 2a", "$2a$" + bcryptRest, "secret"},
		{"bcrypt 2b", "$2b$" + bcryptRest, "secret"},
		{"bcrypt 2y", "$2y$" + bcryptRest, "secret"},
		{"bcrypt of another program", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"},
		{"mosquitto_passwd", "$7$101$rQHPoVKu+q6zsMeX$04Ck68D8sPpsTNfs4/BdKi+zuQGgKw8HYkdP8PTfXpqXtspJ73w8bTUQuoeQAc560X2TjWtmdKj509mNfarFDQ==", "pass-1"},
	}
	path := filepath.Join(t.TempDir(), "users")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, path, "ann:"+tt.hash+"\n")
			a := start(t, access.Config{Users: path})
			for password, want := range map[string]bool{tt.password: true, tt.password + "x": false, "x": false} {
				g, err := a.Login(t.Context(), access.Login{User: "ann", Password: []byte(password)})
				if want != (err == nil) || !want && !errors.Is(err, access.ErrDenied) || want && (g.User() != "ann" || !g.Proved()) {
					t.Errorf("Login with %q: %v, want it to be right: %v", password, err, want)
				}
			}
		})
	}
}

// TestMosquittoPasswd takes over a file that mosquitto_passwd has written.
func TestMosquittoPasswd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	program := testenv.Program(t, "mosquitto_passwd")
	for _, args := range [][]string{{"-c", "-b", path, "ann", "secret-1"}, {"-b", path, "böb", "pass:word"}} {
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	a := start(t, access.Config{Users: path})
	for _, l := range [][2]string{{"ann", "secret-1"}, {"böb", "pass:word"}} {
		if _, err := a.Login(t.Context(), access.Login{User: l[0], Password: []byte(l[1])}); err != nil {
			t.Errorf("Login of %s: %v", l[0], err)
		}
	}
	if _, err := a.Login(t.Context(), access.Login{User: "ann", Password: []byte("pass:word")}); !errors.Is(err, access.ErrDenied) {
		t.Errorf("Login = %v, want ErrDenied", err)
	}
}

func TestUsersFile(t *testing.T) {
	hash, err := access.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	const kinds = "want $argon2id$… as holter password writes it, $2a$…, $2b$… or $2y$… (bcrypt), or $7$… (mosquitto_passwd)"
	salt, key := strings.Repeat("A", 16), strings.Repeat("A", 22)
	tests := []struct{ name, file, want string }{
		{"no colon", "ann\n", "line 1: there is no colon, want NAME:HASH"},
		{"no name", "\n:" + hash, "line 2: the name is empty or not UTF-8, want NAME:HASH"},
		{"no UTF-8", "\xff:" + hash, "line 1: the name is empty or not UTF-8, want NAME:HASH"},
		{"not a hash", "ann:secret", `line 1: the hash of user "ann": ` + kinds},
		{"no dollar", "ann:argon2id$secret", `line 1: the hash of user "ann": ` + kinds},
		{"another hash", "ann:$6$c2FsdA$secret", `line 1: the hash of user "ann": ` + kinds},
		{"another bcrypt", "ann:$2x$05$" + strings.Repeat("a", 53), `line 1: the hash of user "ann": ` + kinds},
		{"twice", "ann:" + hash + "\nann:" + hash, `line 2: user "ann" stands here for the second time`},
		{"argon, cut", "ann:$argon2id$v=19$m=8,t=1,p=1$" + salt, `line 1: the hash of user "ann": want $argon2id$v=19$m=…,t=…,p=…$SALT$KEY, as holter password writes it`},
		{"old version", "ann:" + strings.Replace(hash, "v=19", "v=16", 1), `line 1: the hash of user "ann": argon2 version is "v=16", want v=19`},
		{"no parameters", "ann:$argon2id$v=19$m=8$" + salt + "$" + key, `line 1: the hash of user "ann": parameters are "m=8", want m=…,t=…,p=…`},
		{"huge memory", "ann:" + strings.Replace(hash, "m=19456", "m=4000000000", 1), `line 1: the hash of user "ann": parameters are "m=4000000000,t=2,p=1", want m=8 to 262144, t=1 to 64 and p of at least 1`},
		{"no salt", "ann:$argon2id$v=19$m=19456,t=2,p=1$$" + key, `line 1: the hash of user "ann": the salt is not 8 to 64 bytes in base64`},
		{"no key", "ann:$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$AAAA", `line 1: the hash of user "ann": the key is not 16 to 64 bytes in base64`},
		{"bcrypt, dear", "ann:$2y$17$" + strings.Repeat("a", 53), `line 1: the hash of user "ann": cost of bcrypt is "17", want 04 to 16`},
		{"bcrypt, no cost", "ann:$2y$5$" + strings.Repeat("a", 53), `line 1: the hash of user "ann": cost of bcrypt is "5", want 04 to 16`},
		{"bcrypt, cut", "ann:$2y$10$abcdefghijklmnopqrstuv", `line 1: the hash of user "ann": behind the cost of bcrypt, want salt and key in 53 letters, digits, . and /`},
		{"bcrypt, odd", "ann:$2y$10$" + strings.Repeat("+", 53), `line 1: the hash of user "ann": behind the cost of bcrypt, want salt and key in 53 letters, digits, . and /`},
		{"mosquitto, cut", "ann:$7$101$" + salt, `line 1: the hash of user "ann": want $7$ITERATIONS$SALT$KEY, as mosquitto_passwd writes it`},
		{"mosquitto, too many", "ann:$7$10000001$" + salt + "$" + key + "==", `line 1: the hash of user "ann": iterations are "10000001", want 1 to 10000000`},
		{"mosquitto, no key", "ann:$7$101$" + salt + "$" + key, `line 1: the hash of user "ann": the key is not 16 to 64 bytes in base64`},
	}
	path := filepath.Join(t.TempDir(), "users")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, path, tt.file)
			_, err := access.New(access.Config{Users: path})
			if want := "access: users file " + path + ", " + tt.want; err == nil || err.Error() != want {
				t.Errorf("New = %v, want %s", err, want)
			}
		})
	}
	if _, err := access.New(access.Config{Users: path + "x"}); !errors.Is(err, os.ErrNotExist) || err.Error() != "access: users file "+path+"x: no such file or directory" {
		t.Errorf("New = %v, want ErrNotExist", err)
	}
	write(t, path, strings.Repeat("x\n", 20))
	if _, err := access.New(access.Config{Users: path}); err == nil || strings.Count(err.Error(), "\n") != 9 {
		t.Errorf("New = %v, want the first ten mistakes", err)
	}
	if _, err := access.New(access.Config{Users: t.TempDir()}); err == nil {
		t.Error("New reads a folder")
	}
	if _, err := access.New(access.Config{Anonymous: 3}); err == nil {
		t.Error("New takes an unknown value of Anonymous")
	}
}

func TestHashPassword(t *testing.T) {
	for password, want := range map[string]string{
		"":                        "access: the password has 0 bytes, want 1 to 1024",
		strings.Repeat("x", 1025): "access: the password has 1025 bytes, want 1 to 1024",
	} {
		if _, err := access.HashPassword(password); err == nil || err.Error() != want {
			t.Errorf("HashPassword of %d bytes: %v, want %s", len(password), err, want)
		}
	}
	one, err := access.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	if two, err := access.HashPassword("secret"); err != nil || one == two {
		t.Errorf("HashPassword returns %q, %v twice", two, err)
	}
}

// TestDecide: who may connect, and as whom.
func TestDecide(t *testing.T) {
	here, far := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	mapped := netip.MustParseAddr("::ffff:127.0.0.1")
	path := filepath.Join(t.TempDir(), "users")
	long := strings.Repeat("x", 1025)
	writeUsers(t, path, "ann", "secret-1", "dev-2", "secret-2", "long", long)
	token := func(id string, token []byte) bool { return string(token) == "token-of-"+id }
	open := access.Config{Anonymous: access.Anyone}
	local := access.Config{}
	tokens := access.Config{Anonymous: access.Anyone, Token: token}
	users := access.Config{Anonymous: access.Never, Users: path}
	usersToo := access.Config{Anonymous: access.Anyone, Users: path}
	all := access.Config{Anonymous: access.Never, Users: path, Token: token}
	const denied, anonymous = "denied", "anonymous"
	tests := []struct {
		name   string
		config access.Config
		login  access.Login
		want   string // a user that is proved, or how it ends
	}{
		{"anyone", open, access.Login{Remote: far}, anonymous},
		{"anyone, with what proves nothing", open, access.Login{User: "ann", Password: []byte("x"), Remote: far}, anonymous},
		{"anyone, with a password only", open, access.Login{Password: []byte("x"), Remote: far}, anonymous},
		{"here", local, access.Login{Remote: here}, anonymous},
		{"here, or through a proxy here", local, access.Login{Remote: here, Relayed: true}, denied},
		{"here, IPv6", local, access.Login{Remote: netip.IPv6Loopback()}, anonymous},
		{"here, mapped", local, access.Login{Remote: mapped}, anonymous},
		{"far", local, access.Login{Remote: far}, denied},
		{"from nowhere", local, access.Login{}, denied},
		{"far, with a name", local, access.Login{User: "ann", Password: []byte("x"), Remote: far}, denied},
		{"never", access.Config{Anonymous: access.Never}, access.Login{Remote: here}, denied},

		{"certificate", local, access.Login{Certificate: "dev-1", Remote: far}, "dev-1"},
		{"certificate and its user", all, access.Login{Certificate: "ann", User: "ann", Password: []byte("x")}, "ann"},
		{"certificate, and a name that nothing proves", local, access.Login{Certificate: "dev-1", User: "x", Remote: far}, "dev-1"},
		{"certificate of another user", all, access.Login{Certificate: "dev-1", User: "ann", Password: []byte("x")}, denied},
		{"certificate of another user, no password", all, access.Login{Certificate: "dev-1", User: "ann"}, denied},
		{"certificate, and another user's password", all, access.Login{Certificate: "dev-1", User: "ann", Password: []byte("secret-1")}, "ann"},

		{"token", tokens, access.Login{ClientID: "dev-1", Password: []byte("token-of-dev-1")}, "dev-1"},
		{"token and user name", tokens, access.Login{ClientID: "dev-1", User: "dev-1", Password: []byte("token-of-dev-1")}, "dev-1"},
		{"token, wrong", tokens, access.Login{ClientID: "dev-1", Password: []byte("x")}, denied},
		{"token, wrong, with user name", tokens, access.Login{ClientID: "dev-1", User: "dev-1", Password: []byte("x")}, denied},
		{"token, another user name", tokens, access.Login{ClientID: "dev-1", User: "x", Password: []byte("token-of-dev-1")}, anonymous},
		{"no token", tokens, access.Login{ClientID: "dev-1"}, anonymous},
		{"token without a client id", tokens, access.Login{Password: []byte("token-of-")}, anonymous},
		{"token beside a users file", all, access.Login{ClientID: "dev-1", User: "dev-1", Password: []byte("token-of-dev-1")}, "dev-1"},
		{"token of an id that is a user", all, access.Login{ClientID: "dev-2", Password: []byte("token-of-dev-2")}, denied},
		{"token of an id that is a user, with user name", all, access.Login{ClientID: "dev-2", User: "dev-2", Password: []byte("token-of-dev-2")}, denied},
		{"password of a user that is the id", all, access.Login{ClientID: "dev-2", User: "dev-2", Password: []byte("secret-2")}, "dev-2"},

		{"password", users, access.Login{ClientID: "dev-1", User: "ann", Password: []byte("secret-1")}, "ann"},
		{"wrong password", users, access.Login{User: "ann", Password: []byte("secret-2")}, denied},
		{"no password", users, access.Login{User: "ann"}, denied},
		{"long password", users, access.Login{User: "long", Password: []byte(long)}, denied},
		{"unknown user", users, access.Login{User: "eve", Password: []byte("secret-1")}, denied},
		{"unknown user, right for the stand-in", users, access.Login{User: "eve", Password: []byte("secret-2")}, denied},
		{"nobody", users, access.Login{Remote: here}, denied},
		{"nobody, for anyone", usersToo, access.Login{Remote: far}, anonymous},
		{"nobody with a password, for anyone", usersToo, access.Login{Password: []byte("secret-1"), Remote: far}, anonymous},
		{"wrong password, for anyone", usersToo, access.Login{User: "ann", Password: []byte("x"), Remote: far}, denied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := start(t, tt.config).Login(t.Context(), tt.login)
			got := denied
			switch {
			case err != nil && (!errors.Is(err, access.ErrDenied) || g != nil):
				t.Fatalf("Login = %v, %v, want ErrDenied", g, err)
			case err == nil && g.Proved():
				got = g.User()
			case err == nil && g.User() == "":
				got = anonymous
			}
			if got != tt.want {
				t.Errorf("Login = %s, want %s", got, tt.want)
			}
			if err == nil && !(g.Valid() && g.MayPublish("a") && g.MaySubscribe("#") && !g.MaySubscribe("#a")) {
				t.Error("without rules, not everything is allowed")
			}
		})
	}
}

// TestStandIn: for unknown users, hashes of the same kinds are computed as for those in the file.
func TestStandIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	const argonHash, pbkdf2Hash, bcryptHash = "access.argonHash", "access.pbkdf2Hash", "access.bcryptHash"
	b, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file string
		want       []string
	}{
		{"nobody", "", []string{argonHash}},
		{"mosquitto", "ann:" + cheapHash(t, "x"), []string{pbkdf2Hash}},
		{"mixed", "ann:" + cheapHash(t, "x") + "\nbob:" + string(b), []string{pbkdf2Hash, bcryptHash}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, path, tt.file)
			a := start(t, access.Config{Users: path})
			kinds := make(map[string]int)
			for i := range 1000 {
				name := strings.Repeat("x", i)
				kind := a.StandIn(name)
				kinds[kind]++
				if again := a.StandIn(name); again != kind {
					t.Fatalf("the stand-in of %q is a %s, and then a %s", name, kind, again)
				}
			}
			for _, kind := range tt.want {
				if kinds[kind] < 1000/len(tt.want)/2 {
					t.Errorf("kinds are %v, want %v", kinds, tt.want)
				}
			}
			if len(kinds) != len(tt.want) {
				t.Errorf("kinds are %v, want %v", kinds, tt.want)
			}
		})
	}
}

// TestUnknownUserIsHashed: a hash is computed for an unknown user, and one for all who say the
// same.
func TestUnknownUserIsHashed(t *testing.T) {
	const memory = 19 << 20 // of a hash
	hash, err := access.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "users")
	write(t, path, "ann:"+hash+"\n")
	for _, user := range []string{"ann", "eve"} {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, access.Config{Users: path})
			release := a.Occupy()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if _, err := a.Login(t.Context(), access.Login{User: user, Password: []byte("wrong")}); !errors.Is(err, access.ErrDenied) {
						t.Errorf("Login = %v, want ErrDenied", err)
					}
				})
			}
			synctest.Wait()
			release()
			all.Wait()
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got < memory || got >= 2*memory {
				t.Errorf("10 wrong passwords of user %s took %d bytes, want those of one hash, %d", user, got, memory)
			}
		})
	}
}

func FuzzUser(f *testing.F) {
	f.Add("ann:$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("ann:$2y$10$" + strings.Repeat("a", 53))
	f.Add("ann:$7$101$rQHPoVKu+q6zsMeX$AAAAAAAAAAAAAAAAAAAAAA==")
	f.Add("ann:secret")
	f.Add(":")
	f.Fuzz(func(t *testing.T, line string) {
		name, err := access.ParseUser(line)
		if err == nil && (name == "" || !strings.HasPrefix(line, name+":$")) {
			t.Errorf("line %q is that of user %q", line, name)
		}
	})
}
