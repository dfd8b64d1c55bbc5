package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrLocked is wrapped by errors of [DB.Open] while another process writes to the database.
	ErrLocked = errors.New("sqldb: the database is held")
	// ErrFenced is wrapped by errors of all writes once another process has opened the database. It
	// is final.
	ErrFenced = errors.New("sqldb: another process has taken the database over")
	// ErrNotOpen is returned before Open has succeeded, and after Close.
	ErrNotOpen = errors.New("sqldb: not open")
)

// Config says which database to open.
type Config struct {
	// URL is the database. Required. One of
	//
	//	sqlite:path/to/file.db or sqlite:///path/to/file.db
	//	postgres://user:password@host:5432/database (options of pgx after a ?, such as sslmode=verify-full)
	//	mysql://user:password@host:3306/database (options: socket=/path; tls=true, skip-verify or preferred)
	URL string
	// Dir is a directory of this process for a note that says which database is used. Default: the
	// directory of an SQLite database. Without one, a server's database that is suddenly empty
	// counts as new.
	Dir string
	// AcceptLoss begins a new database where one is missing that a note names, see [ErrLost].
	AcceptLoss bool
	// Moved opens a database although its fleet was moved to another one, see [ErrMoved].
	Moved bool
	// Node is the name of this process among those that use the database, which tells people who holds
	// it. At most 64 visible ASCII characters. Default: the name of the host.
	Node string
	// Patience is how long a server may take for a transaction before it counts as hung. Default: 30 s.
	Patience time.Duration
	// Terms has what this process knows of the terms of the same database from before. Default: nothing.
	Terms *Terms
	// Wall reads the wall clock. Default: time.Now.
	Wall func() time.Time
}

// Owner is a package that keeps rows in the database. Each function may be nil.
type Owner struct {
	// TakeOver is called in the transaction that raises the fence: with an error, the fence is not
	// raised. It reads what the owner has to know, and may change rows of the owner.
	TakeOver func(ctx context.Context, tx Tx) error
	// Close is called by [DB.Close] when nothing new can begin, before the connections are closed. It
	// waits for what the owner has under way.
	Close func() error
}

// DB is a database. Make one with [New], then call [DB.Open].
type DB struct {
	config  Config
	backend backend
	owners  []Owner
	steady  steadyClock
	signs   signs
	tenure  atomic.Pointer[tenure] // of the latest Open that succeeded; never nil
	resumed atomic.Bool            // see Resumed

	leaseTimes leaseTimes // set by New and tests

	// turns is full while a transaction of Write is under way, so that at most one such transaction is
	// ahead of one of WriteLate. Its capacity is 1; nobody closes it.
	turns chan struct{}

	opening sync.Mutex // held by Open and Close; taken before all others
	noted   bool       // the notes were written; used by Open and then Run

	state   sync.RWMutex // guards the fields below; held for a moment only
	conns   *conns       // nil while the database is not open
	lock    lock         // nil if the database is shared
	storeID string
}

// New returns a database. It checks cfg and touches nothing. Errors: ErrBadURL, a negative Patience, a
// bad Node.
func New(cfg Config) (*DB, error) {
	b, err := backendOf(cfg.URL)
	if cfg.Patience < 0 {
		err = errors.Join(err, fmt.Errorf("sqldb: Patience is %v, want more than 0", cfg.Patience))
	}
	if len(cfg.Node) > 64 || cfg.Node != ascii(cfg.Node) {
		err = errors.Join(err, fmt.Errorf("sqldb: Node is %.100q, want at most 64 visible ASCII characters without spaces", cfg.Node))
	}
	if err != nil {
		return nil, err
	}
	cfg.Patience = cmp.Or(cfg.Patience, patience)
	cfg.Node = cmp.Or(cfg.Node, fmt.Sprintf("%.64s", ascii(hostname())))
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	if cfg.Terms == nil {
		cfg.Terms = new(Terms)
	}
	if file, ok := b.(*sqliteDB); ok && cfg.Dir == "" {
		cfg.Dir = filepath.Dir(file.path)
	}
	db := &DB{config: cfg, backend: b, turns: make(chan struct{}, 1), leaseTimes: defaultLease()}
	db.tenure.Store(newTenure())
	return db, nil
}

// Own adds a package that keeps rows. Owners are called in the order in which they were added. Call
// it before Open.
func (db *DB) Own(o Owner) { db.owners = append(db.owners, o) }

// Place returns a description of where the database is, without a password.
func (db *DB) Place() string { return db.backend.place() }

// Dir returns the directory of this process, see [Config]; "" if there is none.
func (db *DB) Dir() string { return db.config.Dir }

// ID returns the identity of the database, 32 hexadecimal digits that were made with it. It is empty
// before Open.
func (db *DB) ID() string {
	db.state.RLock()
	defer db.state.RUnlock()
	return db.storeID
}

// Fence returns the number that this process has raised the fence to; each Open raises it further.
func (db *DB) Fence() int64 { return db.tenure.Load().term }

// Resumed reports whether no other process has raised the fence between the latest Open and the time before
// it when this process had the database, see [Config].Terms. It may have lost commits all the same.
func (db *DB) Resumed() bool { return db.resumed.Load() }

// Open takes the lock of a file or the lease of a server, brings its schema up to date, and makes this process the one that
// writes. After an error it may be called again. Errors: ErrLocked, ErrNewerSchema, ErrLost, ErrMoved, errors
// of owners, and whatever keeps the database from being reached, see [Explain].
func (db *DB) Open(ctx context.Context) error {
	db.opening.Lock()
	defer db.opening.Unlock()
	if db.current() != nil {
		return errors.New("sqldb: open already")
	}
	return db.wrap("open", db.open(ctx))
}

func (db *DB) open(ctx context.Context) (err error) {
	var c *conns
	var l lock
	defer func() {
		if err == nil {
			return
		}
		if c != nil {
			err = errors.Join(err, c.close())
		}
		if l != nil {
			err = errors.Join(err, l.release())
		}
	}()
	if err := db.Missing(); err != nil {
		return err
	}
	if file, ok := db.backend.(*sqliteDB); ok {
		if err := file.prepareDir(); err != nil {
			return err
		}
	}
	t := newTenure()
	if l, err = db.takeLock(ctx, db.config.Node, t); err != nil {
		return err
	}
	if c, err = openConns(db.backend, db.config.Patience); err != nil {
		return err
	}
	before, err := db.present(ctx, c)
	if err != nil {
		return err
	}
	if _, ok := db.backend.(*sqliteDB); ok {
		t.fence = fence{db.config.Terms.beyond(before.term + 1), newNonce()}
	}
	if err = l.check(ctx); err != nil { // a server may have given the lease to another process meanwhile
		return err
	}
	meta, err := db.takeOver(ctx, c, before, t.fence)
	if err != nil {
		return err
	}
	if err = c.mount(ctx, t.fence); err != nil {
		return err
	}
	// A note that cannot be written does no harm while the database is there; Run tries again.
	db.noted = db.keepNotes(meta.storeID) == nil
	db.tenure.Store(t)
	db.steady.begin(Time(cmp.Or(meta.steady, meta.checkpointAt)), db.Now().Round(0), time.Now())
	db.state.Lock()
	defer db.state.Unlock()
	db.conns, db.lock, db.storeID = c, l, meta.storeID
	return nil
}

// present makes sure that the fleet is kept here, brings the schema up to date, and returns the fence.
func (db *DB) present(ctx context.Context, c *conns) (fence, error) {
	if err := db.checkMark(ctx, c); err != nil {
		return fence{}, err
	}
	limited, cancel := context.WithTimeout(ctx, 10*patience) // a migration may take its time
	defer cancel()
	if _, err := migrate(limited, db.backend, c.write, false); err != nil {
		return fence{}, err
	}
	return fenceOf(ctx, c)
}

// takeLock takes the lock of a file, or the lease of a server under the name of a node and for a tenure.
func (db *DB) takeLock(ctx context.Context, node string, t *tenure) (lock, error) {
	if file, ok := db.backend.(*sqliteDB); ok {
		return lockFile(ctx, file.lockPath())
	}
	return db.takeLease(ctx, node, t)
}

// OpenShared opens a database beside a process that may be at work on it. The schema is made if there
// is none. Only [DB.Read] and [DB.WriteShared] work then. Errors: those of New; ErrNewerSchema,
// ErrLost, ErrMoved, those of the database; ErrLocked if the schema is older and another process is at work.
func OpenShared(ctx context.Context, cfg Config) (*DB, error) {
	db, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := db.openShared(ctx); err != nil {
		return nil, db.wrap("open", err)
	}
	return db, nil
}

func (db *DB) openShared(ctx context.Context) error {
	if err := db.Missing(); err != nil {
		return err
	}
	c, err := openConns(db.backend, db.config.Patience)
	if err != nil {
		return err
	}
	err = db.checkMark(ctx, c)
	if err == nil {
		err = db.bringUp(ctx, c)
	}
	if err != nil {
		_ = c.close() // the cause is what counts
		return err
	}
	db.state.Lock()
	defer db.state.Unlock()
	db.conns = c
	return nil
}

// bringUp makes sure that the schema is that of this program.
func (db *DB) bringUp(ctx context.Context, c *conns) (err error) {
	pending, err := migrate(ctx, c.backend, c.write, true)
	if err != nil || !pending {
		return err
	}
	// Under a name of its own: it must not be taken for the server on this machine after a restart.
	l, err := db.takeLock(ctx, fmt.Sprintf("%s/%d", db.config.Node, os.Getpid()), newTenure())
	if err != nil {
		return err
	}
	_, err = migrate(ctx, c.backend, c.write, false)
	return errors.Join(err, l.release())
}

// KeepLease makes the next Close leave the lease of a server to a DB with the same [Config].Terms: as long as
// it lasts, nobody else can take it.
func (db *DB) KeepLease() {
	db.state.RLock()
	defer db.state.RUnlock()
	if l, ok := db.lock.(*lease); ok {
		l.stays.Store(true)
	}
}

// Close closes the database, after its owners have let go of it. It may be opened again.
func (db *DB) Close() error {
	db.opening.Lock()
	defer db.opening.Unlock()
	db.state.Lock()
	c, l := db.conns, db.lock
	db.conns, db.lock = nil, nil
	db.state.Unlock()
	if c == nil {
		return nil
	}
	var errs []error
	for _, o := range db.owners {
		if o.Close != nil {
			errs = append(errs, o.Close())
		}
	}
	errs = append(errs, c.close())
	if l != nil {
		errs = append(errs, l.release())
	}
	return errors.Join(errs...)
}

// ReleaseMemory gives back the memory in which connections to a file have cached what they read and
// wrote, up to 128 MB. It waits for the transaction under way. A database on a server has none.
// Errors: ErrNotOpen, and those of the database.
func (db *DB) ReleaseMemory(ctx context.Context) error {
	c := db.current()
	if c == nil {
		return ErrNotOpen
	}
	return db.wrap("release memory", c.releaseMemory(ctx))
}

// current returns the connections, nil while the database is not open.
func (db *DB) current() *conns {
	db.state.RLock()
	defer db.state.RUnlock()
	return db.conns
}
