package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/httpapi/auth"
)

const (
	// tokenFresh is how long a token is valid for requests without another lookup.
	tokenFresh = 5 * time.Second
	// A stream looks at its token every streamReview, and takes a result of the last streamFresh. A
	// look that finds another one under way takes the result before, so a token that was revoked ends
	// its streams after streamFresh + 2 × streamReview at the latest: 4 s, and the lookup.
	streamReview = 1500 * time.Millisecond
	streamFresh  = time.Second
	// tokenStale is how long a token stays valid while lookups fail. A device whose heartbeats were
	// refused would be judged for it.
	tokenStale = 15 * time.Minute
	// maxTokens bounds the remembered tokens.
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

// tokens caches the tokens that were recently valid.
type tokens struct {
	auth    Auth
	wrong   *addresses
	lane    chan struct{}             // semaphore for lookups from addresses that sent wrong tokens; never closed
	guessed atomic.Uint64             // answers errGuessing
	failed  atomic.Pointer[time.Time] // when the token of a heartbeat last could not be checked, by the monotonic clock; nil: never

	mu   sync.Mutex // guards good
	good map[[sha256.Size]byte]bearerOf
}

// bearerOf is the cached result of a lookup.
type bearerOf struct {
	auth.Token

	told  time.Time // time of the lookup
	asked time.Time // time of the last attempt at one
}

func newTokens(a Auth) *tokens {
	return &tokens{
		auth: a, wrong: newAddresses(1/guessEvery.Seconds(), guesses), good: make(map[[sha256.Size]byte]bearerOf),
		lane: make(chan struct{}, 1),
	}
}

// lookup returns the token with a secret, as it was at most fresh before now if it can be looked up. Errors: errWrongToken; errGuessing for a wrong one after
// too many others from its address; errCrowded; and those of Auth. A correct token is accepted
// whatever came before it from its address, because 256 random bits cannot be guessed and a lookup
// costs little. Lookups from addresses that sent wrong tokens run one after the other, so that they
// leave the database to others.
func (t *tokens) lookup(ctx context.Context, secret string, from netip.Prefix, now time.Time, fresh time.Duration) (bearerOf, error) {
	key := sha256.Sum256([]byte(secret))
	known, ok, due := t.remembered(key, now, fresh)
	if ok && !due && now.Sub(known.told) < tokenStale {
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
	token, good, err := t.auth.Lookup(ctx, secret)
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
	known = bearerOf{Token: token, told: now, asked: now}
	t.remember(key, known)
	return known, nil
}

// remembered returns the cached result for a token, and reports whether it is too old and another
// lookup is due. Only one caller a second is told so.
func (t *tokens) remembered(key [sha256.Size]byte, now time.Time, fresh time.Duration) (known bearerOf, ok, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok = t.good[key]
	if due = ok && now.Sub(known.told) >= fresh && now.Sub(known.asked) >= time.Second; due {
		asked := known
		asked.asked = now
		t.good[key] = asked
	}
	return known, ok, due
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

// revoked makes the next request with a token look it up again.
func (t *tokens) revoked(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.good, func(_ [sha256.Size]byte, known bearerOf) bool { return known.ID == id })
}

// noteFailure records that the token of a heartbeat cannot be checked.
func (t *tokens) noteFailure(now time.Time) { t.failed.Store(&now) }

// failing reports whether the token of a heartbeat could not be checked within a while before now.
// It does not depend on the wall clock.
func (t *tokens) failing(now time.Time, within time.Duration) bool {
	failed := t.failed.Load()
	return failed != nil && now.Sub(*failed) < within
}
