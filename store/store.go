package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/shm"
	"github.com/holter-iot/holter/liveness/eventlog"
)

var (
	// ErrLocked is wrapped by what [Store.Open] returns when another process writes to the database.
	ErrLocked = errors.New("store: the database is held")
	// ErrFenced is wrapped by what all that writes returns once another Store was opened on the database. It is final.
	ErrFenced = errors.New("store: another process has taken the database over")
	// ErrNotOpen is returned by what needs the database before [Store.Open], and [Store.Load] where that is needed, have succeeded, and
	// after Close.
	ErrNotOpen = errors.New("store: not open")
)

// Store keeps a fleet. Make one with [New], then call [Store.Open] and [Store.Load].
type Store struct {
	config    Config
	backend   backend
	decoder   decoder
	jobs      *Jobs
	schedules *Schedules
	log       *eventlog.Log
	names     names
	record    recorder
	steady    steadyClock
	wall      func() time.Time // reads the wall clock
	fenced    atomic.Bool
	oldest    atomic.Uint64 // offset of the oldest event that is kept
	last      atomic.Uint64 // offset of the latest event
	devices   atomic.Int64  // that have a row
	aside     atomic.Int64  // rows of devices that are set aside

	opening sync.Mutex // held by Open and Close, and while a file is written anew; taken before all others
	noted   bool       // the notes were written; used by Open and then Run

	state    sync.RWMutex // guards the pointers below; held for a moment only
	database *database    // nil while the store is not open
	lock     lock

	writing sync.Mutex // guards the fields below; held while Append is at work
	fence   int64      // ours; written by Open while nobody else is at work
	storeID string     // as fence
	loaded  bool
	heads   []uint64        // by device number, the offset of its latest event; 0 if it has no row
	sources map[string]bool // the sources that have a row
	attempt attempt         // the batch that failed last
	part    attempt         // the beginning of one whose rest could not be written, which is offered again as a whole

	checkpoints sync.Mutex // guards the fields below; held while a checkpoint or a pruning is at work; never taken with writing held
	checkpoint  checkpointer
	memory      *shm.Memory // nil if there is none
}

// New returns a store. It checks cfg and touches nothing. Errors: ErrBadURL, values that cannot be.
func New(cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	b, urlErr := backendOf(cfg.URL)
	if err = errors.Join(urlErr, err); err != nil {
		return nil, err
	}
	if file, ok := b.(*sqliteDB); ok && cfg.Dir == "" {
		cfg.Dir = filepath.Dir(file.path)
	}
	log, err := eventlog.New(cfg.Cache)
	if err != nil {
		return nil, err
	}
	s := &Store{config: cfg, backend: b, decoder: newDecoder(), log: log, wall: time.Now}
	s.jobs = &Jobs{store: s}
	s.schedules = newSchedules(s.jobs)
	return s, nil
}

// Place says where the store is, for people.
func (s *Store) Place() string { return s.backend.place() }

// Open takes the database's lock, brings its schema up to date, and makes this store the one that writes to it. After an error it may be
// called again. Errors: ErrLocked, ErrNewerSchema, ErrLost, and whatever keeps the database from being reached, see [Explain].
func (s *Store) Open(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.db() != nil {
		return errors.New("store: open already")
	}
	err := s.open(ctx)
	if err != nil {
		err = s.wrap("open", err)
	}
	s.record.outcome(err)
	return err
}

func (s *Store) open(ctx context.Context) (err error) {
	var d *database
	var l lock
	defer func() {
		if err == nil {
			return
		}
		if d != nil {
			err = errors.Join(err, d.close())
		}
		if l != nil {
			err = errors.Join(err, l.release())
		}
	}()
	if err := missing(s.config, s.backend); err != nil {
		return err
	}
	if file, ok := s.backend.(*sqliteDB); ok {
		if err := file.prepareDir(); err != nil {
			return err
		}
	}
	if l, err = s.backend.lock(ctx); err != nil {
		return err
	}
	if d, err = openDatabase(s.backend, patience); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 10*patience) // a migration may take its time
	defer cancel()
	if _, err = migrate(limited, s.backend, d.write.DB, false); err != nil {
		return err
	}
	before, err := fenceOf(ctx, d)
	if err != nil {
		return err
	}
	if err = l.check(ctx); err != nil { // a migration may have taken longer than the lock lasted
		return err
	}
	if err = s.takeOver(ctx, d, before); err != nil {
		return err
	}
	fence, _, _ := s.identity()
	if err = d.mount(ctx, fence); err != nil {
		return err
	}
	_, noted := s.keepNotes() // what keeps it from that does no harm while the database is there; Run tries again
	s.noted = noted == nil
	s.log.Resume(s.last.Load())
	s.state.Lock()
	defer s.state.Unlock()
	s.database, s.lock = d, l
	return nil
}

// metaRow is the row of meta.
type metaRow struct {
	bun.BaseModel `bun:"table:meta"`

	ID           int64  `bun:"id,pk"`
	StoreID      string `bun:"store_id"`
	Fence        int64  `bun:"fence"`
	LastOffset   uint64 `bun:"last_offset"`
	Oldest       uint64 `bun:"oldest"`
	Checkpoint   uint64 `bun:"checkpoint"`
	CheckpointAt int64  `bun:"checkpoint_at"`
	Memory       string `bun:"memory"`
	Steady       int64  `bun:"steady"`
}

// fenceOf returns the number of the fence, 0 if there is none yet.
func fenceOf(ctx context.Context, d *database) (fence int64, err error) {
	err = d.reading(ctx, func(ctx context.Context, db *bun.DB) error {
		return db.QueryRowContext(ctx, "SELECT COALESCE(MAX(fence), 0) FROM meta WHERE id = 1").Scan(&fence)
	})
	return fence, err
}

// takeOver raises the fence, lets go of the jobs that the writer before held, and reads what a writer
// has to know. before is the fence that was read while the lock was held: a process that was stopped
// since, whose lock somebody else has now, finds another one and changes nothing.
func (s *Store) takeOver(ctx context.Context, d *database, before int64) error {
	var meta metaRow
	err := d.transact(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if before == 0 {
			err = s.found(ctx, tx)
		} else {
			err = raiseFence(ctx, tx, before)
		}
		if err != nil {
			return err
		}
		if err := tx.NewSelect().Model(&meta).Where("id = 1").Scan(ctx); err != nil {
			return err
		}
		if before == 0 { // it is a new one, and nothing was lost, or that was accepted
			return nil
		}
		if err := checkNote(s.config, s.backend, meta.StoreID); err != nil {
			return err
		}
		return releaseAll(ctx, tx)
	})
	if err != nil {
		return err
	}
	if err := s.names.load(ctx, d); err != nil {
		return err
	}
	if err := s.jobs.begin(ctx, d); err != nil {
		return err
	}
	s.writing.Lock()
	s.fence, s.storeID, s.loaded, s.attempt, s.part = meta.Fence, meta.StoreID, false, attempt{}, attempt{}
	s.writing.Unlock()
	s.checkpoints.Lock()
	s.checkpoint = checkpointer{number: meta.Checkpoint}
	s.checkpoints.Unlock()
	s.steady.begin(timeOf(cmp.Or(meta.Steady, meta.CheckpointAt)), s.wall().Round(0), time.Now())
	s.last.Store(meta.LastOffset)
	s.oldest.Store(meta.Oldest)
	s.fenced.Store(false)
	return nil
}

// found makes the row of meta in a new database.
func (s *Store) found(ctx context.Context, tx bun.Tx) error {
	if err := checkNote(s.config, s.backend, ""); err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	first := metaRow{ID: 1, StoreID: hex.EncodeToString(id), Fence: 1, Oldest: 1}
	_, err := tx.NewInsert().Model(&first).Exec(ctx)
	return err
}

// raiseFence raises the fence if it is still what it was before.
func raiseFence(ctx context.Context, tx bun.Tx, before int64) error {
	raised, err := changed(tx.NewRaw("UPDATE meta SET fence = fence + 1 WHERE id = 1 AND fence = ?", before).Exec(ctx))
	if err == nil && !raised {
		err = fmt.Errorf("%w while this one was about to; it changes nothing", ErrFenced)
	}
	return err
}

// Close lets go of the database. Call it after Run and whatever appends have ended. The store may be opened again.
func (s *Store) Close() error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.state.Lock()
	d, l := s.database, s.lock
	s.database, s.lock = nil, nil
	s.state.Unlock()
	if d == nil {
		return nil
	}
	err := s.closeMemory()
	s.writing.Lock() // waits for what is at work
	defer s.writing.Unlock()
	s.loaded = false
	return errors.Join(err, d.close(), l.release())
}

// db returns the database, nil while the store is not open.
func (s *Store) db() *database {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.database
}

// opened returns the database, or says that there is none.
func (s *Store) opened() (*database, error) {
	if d := s.db(); d != nil {
		return d, nil
	}
	return nil, ErrNotOpen
}

// writable is opened for those who write.
func (s *Store) writable() (*database, error) {
	if s.fenced.Load() {
		return nil, ErrFenced
	}
	return s.opened()
}

// checkFence makes sure within a transaction that a statement which was to change the row of meta, if the fence is ours, did.
func (s *Store) checkFence(changed int64) error {
	if changed != 0 {
		return nil
	}
	s.fenced.Store(true)
	return fmt.Errorf("%w; this one changes nothing any more", ErrFenced)
}
