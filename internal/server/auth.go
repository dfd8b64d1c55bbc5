package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/httpapi/auth"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/sqldb"
)

// tokenAuth tells the API which tokens there are.
type tokenAuth struct {
	*auth.Tokens

	open  bool                 // no token is needed
	local bool                 // only this machine reaches the API, so no token is needed while none exists
	some  atomic.Pointer[bool] // whether tokens exist; nil until it is known
}

var errTokensUnknown = errors.New("the tokens have not been read yet")

func newTokenAuth(db *sqldb.DB, c config.Config) *tokenAuth {
	return &tokenAuth{Tokens: auth.NewTokens(db), open: c.Open, local: config.Loopback(c.HTTP)}
}

// Required implements httpapi.Auth.
func (a *tokenAuth) Required() (bool, error) {
	if a.open || !a.local {
		return !a.open, nil
	}
	some := a.some.Load()
	if some == nil {
		return false, errTokensUnknown
	}
	return *some, nil
}

// run checks every two seconds whether tokens exist, until ctx is done. While the database does not
// answer, the last result stays in effect.
func (a *tokenAuth) run(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		a.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *tokenAuth) look(ctx context.Context) {
	if some, err := a.Any(ctx); err == nil {
		a.some.Store(&some)
	}
}
