package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/httpapi/auth"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/sqldb"
)

// tokenAuth tells the API which tokens there are.
type tokenAuth struct {
	tokens *auth.Tokens
	open   bool        // nobody needs a token
	local  bool        // only this machine reaches the API: no token is needed while there is none
	some   atomic.Bool // there are tokens; true until it is known
}

func newTokenAuth(db *sqldb.DB, c config.Config) *tokenAuth {
	a := &tokenAuth{tokens: auth.NewTokens(db), open: c.Open, local: config.Loopback(c.HTTP)}
	a.some.Store(true)
	return a
}

// Required implements httpapi.Auth.
func (a *tokenAuth) Required() bool { return !a.open && (!a.local || a.some.Load()) }

// Lookup implements httpapi.Auth.
func (a *tokenAuth) Lookup(ctx context.Context, secret string) (role httpapi.Role, name string, ok bool, err error) {
	t, ok, err := a.tokens.Lookup(ctx, secret)
	return httpapi.Role(t.Role), t.Name, ok, err
}

// run looks now and then whether there are tokens, until ctx is done. While the database does not answer, what was known holds.
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
	if some, err := a.tokens.Any(ctx); err == nil {
		a.some.Store(some)
	}
}
