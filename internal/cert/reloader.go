package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/filestate"
)

// lookEvery is the time between two looks at the files.
const lookEvery = time.Second

// Reloader keeps what [Load] returns up to date. Make one with [New]. Its methods are safe for
// concurrent use.
type Reloader struct {
	files   Files
	log     *slog.Logger
	current atomic.Pointer[tls.Config]

	mu     sync.Mutex     // guards the fields below, and lets one look at a time
	seen   [4]os.FileInfo // of what was loaded last
	broken error          // what is wrong with the files; nil if nothing is
}

// states returns what tells the files from those of another time; nil for those that do not exist.
func (f Files) states() (all [4]os.FileInfo) {
	for i, file := range []string{f.Cert, f.Key, f.Clients, f.Revoked} {
		if info, err := os.Stat(file); err == nil {
			all[i] = info
		}
	}
	return all
}

// New loads the files, which must be good the first time; its errors are those of [Load]. log gets
// a line for each change. Default: slog.Default().
func New(f Files, log *slog.Logger) (*Reloader, error) {
	if log == nil {
		log = slog.Default()
	}
	r := &Reloader{files: f, log: log, seen: f.states()} // the states first: what changes while it is read is read again
	c, err := Load(f)
	if err != nil {
		return nil, err
	}
	r.current.Store(c)
	return r, nil
}

// Config returns a configuration for listeners, which always serves with what was loaded last.
func (r *Reloader) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: r.GetCertificate, GetConfigForClient: r.GetConfigForClient}
}

// GetConfigForClient is for the field of that name of [tls.Config].
func (r *Reloader) GetConfigForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	return r.current.Load(), nil
}

// GetCertificate is for the field of that name of [tls.Config], for servers with settings of their
// own. The clients' authorities have no effect there.
func (r *Reloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &r.current.Load().Certificates[0], nil
}

// Leaf returns the server's certificate that was loaded last.
func (r *Reloader) Leaf() *x509.Certificate { return r.current.Load().Certificates[0].Leaf }

// Run looks at the files every second until ctx is done, and returns nil then.
func (r *Reloader) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.Look() // it was logged
		case <-ctx.Done():
			return nil
		}
	}
}

// Look loads the files if one of them changed since they were loaded last. If they cannot be loaded
// it returns the error of [Load]; then what was loaded before stays in use, and the next look tries
// again, for the cause may lie elsewhere than in the files.
func (r *Reloader) Look() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := r.files.states()
	if r.broken == nil && slices.EqualFunc(states[:], r.seen[:], filestate.Same) {
		return nil
	}
	c, err := Load(r.files)
	before := r.broken
	r.seen, r.broken = states, err
	if err != nil {
		if before != nil && before.Error() == err.Error() { // it was said
			return err
		}
		leaf := r.Leaf()
		r.log.Warn("cannot use the new certificates; the previous ones stay in use", "error", err, "in_use_until", leaf.NotAfter, "in_use_for", leaf.Subject.String())
		return err
	}
	r.current.Store(c)
	leaf := r.Leaf()
	r.log.Info("certificates reloaded", "cert", r.files.Cert, "subject", leaf.Subject.String(), "not_after", leaf.NotAfter)
	return nil
}
