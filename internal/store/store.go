package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/net/shm"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Config says what a store keeps.
type Config struct {
	// Memory is a directory on a tmpfs for memory that outlives the process: kill -9 loses no
	// heartbeat then. Default: /dev/shm. [NoMemory], or a system or directory without such memory,
	// leaves the checkpoints: what was heard after the last checkpoint of a process that was killed
	// is not known, and its devices count as heard at that checkpoint.
	Memory string
	// Checkpoint is how often [Store.Run] writes the heartbeats and the clocks down: what of them a
	// crash may cost. Default: 5 s.
	Checkpoint time.Duration
	// Keep is how many events are kept. Default: 10,000,000.
	Keep int
	// MaxAge is how long an event is kept. A wall clock that is ahead for less than a day makes no
	// event too old but those of as much time as it was wrong for. Default: 30 days.
	MaxAge time.Duration
	// MaxBytes is how many bytes the events may take in the database, by an estimate that is on the safe
	// side: the oldest are deleted. What was there before counts some minutes after the start. A file does
	// not shrink; it uses the space again. Default: 4 GiB.
	MaxBytes int
	// GapsMaxAge is for how long the gaps of devices are kept, by the hour. A wall clock that is ahead for
	// less than a day makes none too old. Default: 30 days.
	GapsMaxAge time.Duration
	// GapsMaxBytes is how many bytes they may take, packed: the oldest hours are deleted, but not the
	// latest. Default: 2 GiB.
	GapsMaxBytes int
	// Cache is how many of the latest events are kept in memory for readers; those that are older
	// than one to two minutes only if they are among the latest 1,000. Default: 100,000, some 70 MB.
	Cache int
	// Node is the name of this process, which is kept with its events. Default: none.
	Node string
	// Outbox writes what follows from events. Default: none.
	Outbox Outbox
	// Tail has the events that an earlier store of this process has committed to the same database, and
	// gets those of this one. Default: none.
	Tail *Tail
	// Follower has read, in this process, what Load needs of the same database. Load empties it.
	// Default: none.
	Follower *Follower
}

func (c Config) withDefaults() (Config, error) {
	if c.Checkpoint == 0 {
		c.Checkpoint = 5 * time.Second
	}
	if c.Memory == "" {
		c.Memory = shm.DefaultDir
	}
	if c.Keep == 0 {
		c.Keep = 10_000_000
	}
	if c.MaxAge == 0 {
		c.MaxAge = 30 * 24 * time.Hour
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 4 << 30
	}
	if c.GapsMaxAge == 0 {
		c.GapsMaxAge = 30 * 24 * time.Hour
	}
	if c.GapsMaxBytes == 0 {
		c.GapsMaxBytes = 2 << 30
	}
	if c.Cache == 0 {
		c.Cache = cacheSize
	}
	var errs []error
	reject := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("store: "+format, args...))
		}
	}
	reject(c.Checkpoint < 0, "Checkpoint is %v, want more than 0", c.Checkpoint)
	reject(c.Keep < 0, "Keep is %d, want 1 or more", c.Keep)
	reject(c.MaxAge < 0, "MaxAge is %v, want more than 0", c.MaxAge)
	reject(c.MaxBytes < 0, "MaxBytes is %d, want more than 0", c.MaxBytes)
	reject(c.GapsMaxAge < 0, "GapsMaxAge is %v, want more than 0", c.GapsMaxAge)
	reject(c.GapsMaxBytes < 0, "GapsMaxBytes is %d, want more than 0", c.GapsMaxBytes)
	reject(c.Cache < 0, "Cache is %d, want 1 or more", c.Cache)
	c.Cache = min(c.Cache, c.Keep)
	return c, errors.Join(errs...)
}

// Store keeps a fleet. Make one with [New], then call [Store.Open] and [Store.Load].
type Store struct {
	config  Config
	db      *sqldb.DB
	decoder decoder
	log     *eventlog.Log
	names   names
	record  recorder
	oldest  atomic.Uint64 // offset of the oldest event that is kept
	last    atomic.Uint64 // offset of the latest event
	keeps   atomic.Pointer[retention]
	devices atomic.Int64 // that have a row
	aside   atomic.Int64 // rows of devices that are set aside

	writing sync.Mutex // guards the fields below; held while Append is at work
	loaded  bool
	heads   []uint64        // by device number, the offset of its latest event; 0 if it has no row
	sources map[string]bool // the sources that have a row
	attempt attempt         // the batch that failed last
	part    attempt         // the beginning of a batch whose rest could not be written, and which is offered again as a whole

	checkpoints sync.Mutex // guards the fields below; held while a checkpoint or a pruning is at work; never taken with writing held
	checkpoint  checkpointer
	memory      *shm.Memory // nil if there is none
}

// New returns a store in a database that is not open yet. It touches nothing. Errors: values of cfg
// that cannot be.
func New(db *sqldb.DB, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	log, err := eventlog.New(cfg.Cache)
	if err != nil {
		return nil, err
	}
	s := &Store{config: cfg, db: db, decoder: newDecoder(), log: log}
	s.keeps.Store(cfg.retention())
	db.Own(sqldb.Owner{TakeOver: s.takeOver, Close: s.close})
	return s, nil
}

// retention is what is kept. It is replaced as a whole.
type retention struct {
	keep         int
	maxAge       time.Duration
	maxBytes     int
	gapsMaxAge   time.Duration
	gapsMaxBytes int
}

func (c *Config) retention() *retention {
	return &retention{c.Keep, c.MaxAge, c.MaxBytes, c.GapsMaxAge, c.GapsMaxBytes}
}

// SetRetention replaces Keep, MaxAge, MaxBytes, GapsMaxAge and GapsMaxBytes of the Config, from the next
// pruning on. It may be called at any time. Errors: values that a Config may not have; then nothing has changed.
func (s *Store) SetRetention(cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	s.keeps.Store(cfg.retention())
	return nil
}

// Open opens the database, see [sqldb.DB.Open].
func (s *Store) Open(ctx context.Context) error {
	err := s.db.Open(ctx)
	s.record.outcome(err)
	return err
}

// Close closes the database. Call it after Run and whatever appends have ended. It may be opened again.
func (s *Store) Close() error { return s.db.Close() }

// metaRow is what the store reads of the one row of meta.
type metaRow struct {
	lastOffset, oldest, checkpoint uint64
	checkpointAt                   int64
	memory                         string
}

func readMeta(ctx context.Context, q sqldb.Querier) (m metaRow, err error) {
	err = q.QueryRowContext(ctx, "SELECT last_offset, oldest, checkpoint, checkpoint_at, memory FROM meta WHERE id = 1").
		Scan(&m.lastOffset, &m.oldest, &m.checkpoint, &m.checkpointAt, &m.memory)
	return m, err
}

// takeOver reads what a writer has to know.
func (s *Store) takeOver(ctx context.Context, tx sqldb.Tx) error {
	meta, err := readMeta(ctx, tx)
	if err != nil {
		return err
	}
	if err := s.names.load(ctx, tx); err != nil {
		return err
	}
	var lowest int64
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MIN(page), 0) FROM gaps").Scan(&lowest); err != nil {
		return err
	}
	s.writing.Lock()
	s.loaded, s.attempt, s.part = false, attempt{}, attempt{}
	s.writing.Unlock()
	s.checkpoints.Lock()
	s.checkpoint = checkpointer{number: meta.checkpoint, gaps: gapKeeper{next: min(lowest, 0) - 1}}
	s.checkpoints.Unlock()
	s.last.Store(meta.lastOffset)
	s.oldest.Store(meta.oldest)
	s.log.Resume(meta.lastOffset)
	return nil
}

// close waits for what is at work, and leaves the memory to the next process.
func (s *Store) close() error {
	err := s.closeMemory()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.loaded = false
	return err
}

// isLoaded reports whether Load has succeeded.
func (s *Store) isLoaded() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.loaded
}

// errNotLoaded is returned for writes before Load.
var errNotLoaded = fmt.Errorf("%w: Load comes first", sqldb.ErrNotOpen)

// Place returns a description of where the database is, without a password.
func (s *Store) Place() string { return s.db.Place() }
