package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tokenFresh is how long a token is taken for good without asking again.
	tokenFresh = 5 * time.Second
	// tokenStale is how long it is while nobody can be asked: a device whose heartbeats were refused would be judged for it.
	tokenStale = 15 * time.Minute
	// maxTokens bounds what is remembered.
	maxTokens     = 1024
	lookupTimeout = 5 * time.Second
	// An address is told that a token is wrong every guessEvery, and a few times more at once; beyond that, to come later.
	guessEvery = 6 * time.Second
	guesses    = 10
)

var (
	errWrongToken = errors.New("httpapi: wrong token")
	errGuessing   = errors.New("httpapi: too many wrong tokens")
	errCrowded    = errors.New("httpapi: too many tokens wait to be looked up")
)

// tokens remembers the tokens that were good of late.
type tokens struct {
	auth    Auth
	wrong   *addresses
	lane    chan struct{}             // holds a token while one from where wrong ones come is looked up; never closed
	guessed atomic.Uint64             // answers errGuessing
	failed  atomic.Pointer[time.Time] // when that of a heartbeat could not be checked last, with the monotonic clock; nil: never

	mu   sync.Mutex // guards good
	good map[[sha256.Size]byte]bearerOf
}

// bearerOf is what is known of a token.
type bearerOf struct {
	role Role
	name string
	told time.Time // when it was found good
	ask  time.Time // when to ask again
}

func newTokens(auth Auth) *tokens {
	return &tokens{
		auth: auth, wrong: newAddresses(1/guessEvery.Seconds(), guesses), good: make(map[[sha256.Size]byte]bearerOf),
		lane: make(chan struct{}, 1),
	}
}

// lookup returns whose a secret is. Errors: errWrongToken; errGuessing, for a wrong one after too many of them; errCrowded; what Auth says.
// A right one is let in whatever came before it from its address: nobody guesses one of 256 random bits, and to look it up costs little.
// Those from where wrong ones come are looked up one after the other, so that they leave the database to others.
func (t *tokens) lookup(ctx context.Context, secret string, from netip.Prefix, now time.Time) (bearerOf, error) {
	key := sha256.Sum256([]byte(secret))
	known, ok := t.remembered(key, now)
	if ok && now.Before(known.ask) {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout) // a client that leaves is no failure
	defer cancel()
	if !ok && t.wrong.exhausted(from, now) {
		select {
		case t.lane <- struct{}{}:
			defer func() { <-t.lane }()
		case <-ctx.Done():
			return bearerOf{}, errCrowded
		}
	}
	role, name, good, err := t.auth.Lookup(ctx, secret)
	switch {
	case err != nil && ok && now.Sub(known.told) < tokenStale:
		return known, nil
	case err != nil:
		return bearerOf{}, err
	case !good:
		t.forget(key)
		if !t.wrong.allow(from, now) {
			return bearerOf{}, errGuessing
		}
		return bearerOf{}, errWrongToken
	}
	known = bearerOf{role: role, name: name, told: now, ask: now.Add(tokenFresh)}
	t.remember(key, known)
	return known, nil
}

// remembered returns what is known of a token. If it is time to ask again, only the first caller is told so for a while.
func (t *tokens) remembered(key [sha256.Size]byte, now time.Time) (bearerOf, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.good[key]
	if ok && !now.Before(known.ask) {
		later := known
		later.ask = now.Add(time.Second)
		t.good[key] = later
	}
	return known, ok
}

func (t *tokens) remember(key [sha256.Size]byte, who bearerOf) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.good[key]; !ok && len(t.good) >= maxTokens {
		for other := range t.good { // any
			delete(t.good, other)
			break
		}
	}
	t.good[key] = who
}

func (t *tokens) forget(key [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.good, key)
}

// noteFailure notes that the token of a heartbeat cannot be checked.
func (t *tokens) noteFailure(now time.Time) { t.failed.Store(&now) }

// failing reports whether the token of a heartbeat could not be checked within a while before now. It does not matter to it whether somebody
// has set the wall clock meanwhile.
func (t *tokens) failing(now time.Time, within time.Duration) bool {
	failed := t.failed.Load()
	return failed != nil && now.Sub(*failed) < within
}
