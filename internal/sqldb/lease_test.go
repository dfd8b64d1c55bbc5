package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testsqldb"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// node returns a database that is not open, of a process with a name.
func node(tb testing.TB, url, name string) *sqldb.DB {
	tb.Helper()
	db := testsqldb.New(tb, sqldb.Config{URL: url, Node: name})
	db.SetLease(time.Minute, 20*time.Millisecond, 5*time.Second) // no machine is too slow for that
	return db
}

// begin is node that opens the database.
func begin(tb testing.TB, url, name string) *sqldb.DB {
	tb.Helper()
	db := node(tb, url, name)
	must(tb, db.Open(tb.Context()))
	return db
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// servers are the databases that have a lease.
func servers() []testdb.Database { return testdb.Databases()[1:] }

// free reports whether nobody holds a database.
func free(tb testing.TB, db *sqldb.DB) bool {
	tb.Helper()
	h, err := db.Holder(tb.Context())
	must(tb, err)
	if (h.Text == "") != (h.Free && h.Node == "") {
		tb.Errorf("Holder = %+v", h)
	}
	return h.Free
}

// The second process is refused and told who the first is, until that one lets go.
func TestHeld(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			a, b := node(t, url, "a"), node(t, url, "b")
			if !free(t, a) {
				t.Error("a database that was never used is held")
			}
			must(t, a.Open(t.Context()))
			h, err := b.Holder(t.Context())
			must(t, err)
			pid := fmt.Sprintf("pid %d", os.Getpid())
			if h.Free || !strings.Contains(h.Text, pid) || kind.Name != "sqlite" && h.Node != "a" {
				t.Errorf("Holder = %+v", h)
			}
			err = b.Open(t.Context())
			if !errors.Is(err, sqldb.ErrLocked) || !strings.Contains(err.Error(), pid) || kind.Name != "sqlite" && !strings.Contains(err.Error(), "by a (pid") {
				t.Errorf("Open of what is open: %v", err)
			}
			must(t, a.Close())
			if !free(t, b) {
				t.Error("it is held after Close")
			}
			must(t, b.Open(t.Context()))
			if b.Fence() != 2 || b.Lapsed() != 0 || b.Nonce() == 0 {
				t.Errorf("term %d, nonce %d, lapsed for %v", b.Fence(), b.Nonce(), b.Lapsed())
			}
		})
	}
}

// A process that is gone without a word, or stands still, loses the database when its lease is over.
func TestLeaseEnds(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			a, b := node(t, url, "a"), node(t, url, "b")
			a.SetLease(700*time.Millisecond, 20*time.Millisecond, 5*time.Second)
			must(t, a.Open(t.Context()))
			a.Freeze()
			for begun := time.Now(); ; {
				err := b.Open(t.Context())
				if err == nil {
					if age := time.Since(begun); age < 600*time.Millisecond {
						t.Errorf("it was taken after %v", age)
					}
					break
				}
				if !errors.Is(err, sqldb.ErrLocked) {
					t.Fatal(err)
				}
			}
			if a.Lapsed() == 0 {
				t.Error("the first one does not know that its lease is over")
			}
			if err := write(t, a); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Write of the first: %v, want ErrFenced", err)
			}
			must(t, a.Close())
			if free(t, a) {
				t.Error("the first one has let go of the lease of the second")
			}
			must(t, write(t, b))
		})
	}
}

// A process need not wait for the lease of what it was before a crash. Another one that lives and has the
// same name is not overthrown.
func TestNamesake(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			synctest.Test(t, func(t *testing.T) {
				first, second := node(t, url, "a"), node(t, url, "a")
				for _, db := range []*sqldb.DB{first, second} {
					db.SetLease(time.Minute, time.Second, 5*time.Second) // the second looks whether the first renews it in time
				}
				must(t, first.Open(t.Context()))
				err := second.Open(t.Context())
				if !errors.Is(err, sqldb.ErrLocked) || !strings.Contains(err.Error(), "another process calls itself a, too") {
					t.Errorf("Open = %v", err)
				}
				must(t, write(t, first))
				first.Freeze()
				must(t, second.Open(t.Context()))
				if err := write(t, first); !errors.Is(err, sqldb.ErrFenced) {
					t.Errorf("Write of the first: %v, want ErrFenced", err)
				}
			})
		})
	}
}

// Ten processes begin at once on an empty database. Each gets it, one after the other.
func TestRace(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			var holders atomic.Int32
			var running sync.WaitGroup
			for i := range 10 {
				db := node(t, url, fmt.Sprint("n", i))
				running.Go(func() {
					for {
						err := db.Open(t.Context())
						if err == nil {
							break
						}
						if !errors.Is(err, sqldb.ErrLocked) {
							t.Error(err)
							return
						}
					}
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d processes have it", n)
					}
					if err := write(t, db); err != nil {
						t.Error(err)
					}
					holders.Add(-1)
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			last := begin(t, url, "last")
			rows := 0
			must(t, last.Scan(t.Context(), "SELECT COUNT(*) FROM names", &rows))
			if rows != 10 || last.Fence() != 11 {
				t.Errorf("%d rows, term %d, want 10 and 11", rows, last.Fence())
			}
		})
	}
}

// A process whose lease another one has learns of it at once, and not only when it writes.
func TestStolen(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			db := begin(t, url, "a")
			ended := make(chan error, 1)
			go func() { ended <- db.Run(t.Context()) }()
			must(t, db.Exec(t.Context(), "UPDATE judge SET node = 'b', process = 'pid 1', term = term + 1, nonce = 7"))
			if err := <-ended; !errors.Is(err, sqldb.ErrFenced) || !strings.Contains(err.Error(), "b (pid 1") {
				t.Errorf("Run = %v, want ErrFenced and who has it", err)
			}
			if err := db.Health(); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Health = %v, want ErrFenced", err)
			}
			if err := write(t, db); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Write = %v, want ErrFenced", err)
			}
			must(t, db.Exec(t.Context(), "UPDATE judge SET node = ''"))
			must(t, db.Close())
			must(t, db.Open(t.Context())) // as another
			must(t, write(t, db))
		})
	}
}

// Who edits the row overthrows nobody, and the holder puts it right.
func TestEdited(t *testing.T) {
	eachEdit(t, map[string]string{
		"deleted":      "DELETE FROM judge",
		"dropped":      "DROP TABLE judge",
		"cleared":      "UPDATE judge SET node = ''",
		"released":     "UPDATE judge SET node = '', nonce = 0, renewed = 0",
		"ahead":        "UPDATE judge SET renewed = renewed + 3600000000",
		"term lowered": "UPDATE judge SET term = -7",
		"lease":        "UPDATE judge SET lease = 1000000000000",
	}, func(t *testing.T, url, edit string) {
		t.Helper()
		db := begin(t, url, "a")
		must(t, db.Exec(t.Context(), edit))
		right := fmt.Sprintf("SELECT COUNT(*) FROM judge WHERE node = 'a' AND term = %d AND nonce = %d AND lease = 60000000 AND renewed < taken + 600000000", db.Fence(), db.Nonce())
		testwait.Until(t, "the row is right", func() bool {
			n := 0
			err := db.Scan(t.Context(), right, &n)
			return err == nil && n == 1
		})
		must(t, write(t, db))
	})
}

// A lease that nobody renews is free after such edits, and its term does not fall.
func TestEditedWhileDead(t *testing.T) {
	eachEdit(t, map[string]string{
		"deleted": "DELETE FROM judge",
		"dropped": "DROP TABLE judge",
		"cleared": "UPDATE judge SET node = '', term = 0",
		"ahead":   "UPDATE judge SET renewed = renewed + 3600000000, term = -1",
	}, func(t *testing.T, url, edit string) {
		t.Helper()
		dead, next := begin(t, url, "a"), node(t, url, "b")
		dead.Freeze()
		must(t, dead.Exec(t.Context(), edit))
		if !free(t, next) {
			t.Error("it is held")
		}
		must(t, next.Open(t.Context()))
		if next.Fence() != dead.Fence()+1 {
			t.Errorf("term %d after %d", next.Fence(), dead.Fence())
		}
		if err := write(t, dead); !errors.Is(err, sqldb.ErrFenced) {
			t.Errorf("Write of the dead: %v, want ErrFenced", err)
		}
	})
}

// eachEdit runs a test with each of some edits, one after the other on a database of each kind that had another judge before.
func eachEdit(t *testing.T, edits map[string]string, test func(t *testing.T, url, edit string)) {
	t.Helper()
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			must(t, begin(t, url, "z").Close())
			for name, edit := range edits {
				t.Run(name, func(t *testing.T) { test(t, url, edit) })
			}
		})
	}
}

// A failover of the database may lose commits, and a term may be given twice. The nonce tells the two apart.
func TestLostCommits(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			must(t, begin(t, url, "z").Close())
			var nonce int64
			old := begin(t, url, "a")
			must(t, old.Scan(t.Context(), "SELECT nonce FROM meta", &nonce))
			old.Freeze()
			must(t, old.Exec(t.Context(), "UPDATE judge SET node = '', term = 1, nonce = 0, renewed = 0"))
			must(t, old.Exec(t.Context(), "UPDATE meta SET fence = 1, nonce = 0"))
			next := begin(t, url, "b")
			if next.Fence() != old.Fence() || next.Nonce() == old.Nonce() {
				t.Fatalf("terms %d and %d, want the same; nonces %d and %d", old.Fence(), next.Fence(), old.Nonce(), next.Nonce())
			}
			if err := write(t, old); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Write with the term that was lost: %v, want ErrFenced", err)
			}
			must(t, write(t, next))
		})
	}
}

// While a process takes the database over, as long as that lasts, its lease is renewed.
func TestLongTakeover(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			t.Parallel()
			url := kind.URL(t)
			db, other := node(t, url, "a"), node(t, url, "b")
			const length = 2 * time.Second
			db.SetLease(length, 20*time.Millisecond, 5*time.Second)
			db.Own(sqldb.Owner{TakeOver: func(context.Context, sqldb.Tx) error {
				for begun := time.Now(); time.Since(begun) < length*3/2; {
					if free(t, other) { //nolint:contextcheck // it has that of the test
						t.Error("its lease is over")
						break
					}
				}
				return nil
			}})
			must(t, db.Open(t.Context()))
			must(t, write(t, db))
		})
	}
}

// While a server hangs, and for longer than the lease, its holder says since when the lease may have been
// another's, and goes on when the server does.
func TestServerHangs(t *testing.T) {
	testenv.Check(t)
	for name, server := range map[string]func(testing.TB, bool) *testdb.Server{"postgres": testdb.NewPostgres, "mariadb": testdb.NewMariaDB} {
		t.Run("db="+name, func(t *testing.T) {
			t.Parallel()
			srv := server(t, true) // to lose the takeover in the crash would be another case
			url := srv.Database(t)
			db := node(t, url, "a")
			db.SetLease(2*time.Second, 20*time.Millisecond, 200*time.Millisecond)
			must(t, db.Open(t.Context()))
			srv.Pause(t)
			testwait.Until(t, "it has lapsed", func() bool { return db.Lapsed() > time.Second })
			if err := db.Health(); !errors.Is(err, sqldb.ErrSilent) {
				t.Errorf("Health = %v, want ErrSilent", err)
			}
			srv.Continue(t)
			testwait.Until(t, "it works again", func() bool { return db.Lapsed() == 0 && db.Health() == nil && write(t, db) == nil },
				func() string { return fmt.Sprint(db.Lapsed(), db.Health(), write(t, db)) })
			srv.Kill()
			testwait.Until(t, "Health says so", func() bool { return db.Health() != nil })
			srv.Start(t)
			testwait.Until(t, "it works again", func() bool { return db.Lapsed() == 0 && db.Health() == nil && write(t, db) == nil },
				func() string { return fmt.Sprint(db.Lapsed(), db.Health(), write(t, db)) })
			if db.Fence() != 1 {
				t.Errorf("term %d, want 1", db.Fence())
			}
			srv.Pause(t)
			begun := time.Now()
			must(t, db.Close()) // does not wait for a server that hangs
			t.Logf("closed in %v", time.Since(begun))
			srv.Continue(t)
		})
	}
}

// A connection that hangs is given up, and the lease is renewed over another one.
func TestConnectionHangs(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			parts := strings.SplitAfter(url, "@")
			host, rest, _ := strings.Cut(parts[1], "/")
			p := newProxy(t, host)
			db := node(t, parts[0]+p.address()+"/"+rest, "a")
			db.SetLease(time.Hour, 20*time.Millisecond, 200*time.Millisecond)
			must(t, db.Open(t.Context()))
			direct, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url})
			must(t, err)
			renewed := func() (at int64) {
				t.Helper()
				must(t, direct.Scan(t.Context(), "SELECT renewed FROM judge", &at))
				return at
			}
			p.hang()
			before := renewed()
			testwait.Until(t, "it is renewed", func() bool { return renewed() != before })
			if db.Lapsed() != 0 {
				t.Errorf("lapsed for %v", db.Lapsed())
			}
			must(t, direct.Close())
		})
	}
}

// proxy passes connections on, until those that there are hang.
type proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []*stalling
}

// stalling is a connection that passes nothing on once it hangs.
type stalling struct {
	net.Conn

	hangs atomic.Bool
}

func (c *stalling) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for err == nil && c.hangs.Load() { // takes what comes, and drops it
		n, err = c.Conn.Read(b)
	}
	return n, err
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: l, to: to}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		from, back := &stalling{Conn: in}, &stalling{Conn: out}
		p.mu.Lock()
		p.conns = append(p.conns, from, back)
		p.mu.Unlock()
		for _, pair := range [][2]net.Conn{{from, back}, {back, from}} {
			p.running.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// hang makes all connections hang that there are.
func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.hangs.Store(true)
	}
}

func TestLeaseIsLinearizable(t *testing.T) {
	for _, kind := range testdb.Databases()[1:] {
		t.Run("db="+kind.Name, func(t *testing.T) { sqldb.CheckLease(t, kind.Empty(t)) })
	}
}
