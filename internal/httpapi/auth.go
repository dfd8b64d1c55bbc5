package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holter-iot/holter/internal/httpapi/auth"
)

// Auth looks up tokens. Its methods are called concurrently.
type Auth interface {
	// Lookup returns the token with a secret, and false if there is none. An error means that it
	// cannot be checked now. It should take the same time for all unknown secrets. The API looks up
	// the same secret every few seconds at most, and uses the last result while Lookup fails.
	Lookup(ctx context.Context, secret string) (auth.Token, bool, error)
	// Required reports whether a token is needed at all. An error means that it is not known yet: then
	// requests are refused, and the source of the heartbeats is deaf. It must return at once.
	Required() (bool, error)
}

// authorize reports whether a request has the role, and returns its token; the zero one if it needs
// none. It answers a request that does not. With inQuery the secret may be in the query. While it is
// found out, and after that if it has the role, the connection is not closed for others.
func (a *API) authorize(w http.ResponseWriter, r *http.Request, need auth.Role, inQuery bool) (who auth.Token, ok bool) {
	if c := connOf(r.Context()); c != nil {
		c.Keep()
		defer func() {
			if !ok {
				c.Begin()
			}
		}()
	}
	if a.tokens == nil {
		return auth.Token{}, true
	}
	if required, known := a.requires(w, r); !required {
		return auth.Token{}, known
	}
	return a.verify(w, r, need, credentialOf(r, inQuery))
}

// requires reports whether a request needs a token. While that is not known it answers the request.
func (a *API) requires(w http.ResponseWriter, r *http.Request) (required, known bool) {
	if a.tokens == nil {
		return false, true
	}
	required, err := a.config.Auth.Required()
	if err != nil {
		writeLater(w, http.StatusServiceUnavailable, time.Second, "it is not known yet whether a token is needed; try again")
		return false, false
	}
	return required || a.config.Local && fromElsewhere(r), true
}

// verify reports whether a credential has the role, and returns its token. The empty role is in all
// roles. It answers a request whose credential does not, and removes a cookie with a wrong token.
func (a *API) verify(w http.ResponseWriter, r *http.Request, need auth.Role, c credential) (who auth.Token, ok bool) {
	if c.secret == "" {
		a.denied.Add(1)
		w.Header().Set("WWW-Authenticate", `Bearer realm="holter"`)
		writeProblem(w, http.StatusUnauthorized, "this needs a token"+withRole(need)+"; send the header Authorization: Bearer TOKEN")
		return auth.Token{}, false
	}
	found, err := a.tokens.lookup(r.Context(), c.secret, addressOf(r), a.now(), tokenFresh)
	switch {
	case err != nil:
		a.refuseToken(w, r, need, c, err)
		return auth.Token{}, false
	case !found.Role.Includes(need):
		a.denied.Add(1)
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="holter", error="insufficient_scope", scope="%s"`, need))
		writeProblem(w, http.StatusForbidden, fmt.Sprintf("this needs a token%s; the role of %q is %s", withRole(need), found.Name, found.Role))
		return auth.Token{}, false
	}
	return found.Token, true
}

func withRole(need auth.Role) string {
	if need == "" {
		return ""
	}
	return " with the role " + string(need)
}

// refuseToken answers a request whose token is wrong, or cannot be checked.
func (a *API) refuseToken(w http.ResponseWriter, r *http.Request, need auth.Role, c credential, err error) {
	if c.cookie && (errors.Is(err, errWrongToken) || errors.Is(err, errGuessing)) {
		dropCookie(w)
	}
	switch {
	case errors.Is(err, errGuessing):
		a.denied.Add(1)
		if n := a.tokens.guessed.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th … time
			a.config.Logger.Warn("many wrong tokens from one address; not each of them is logged, and correct ones are still accepted",
				"remote", r.RemoteAddr, "times", n)
		}
		writeLater(w, http.StatusTooManyRequests, guessEvery, "this token is wrong, and too many wrong tokens came from this address; wait, and check the token")
	case errors.Is(err, errCrowded):
		writeLater(w, http.StatusServiceUnavailable, time.Second, "too many wrong tokens are being looked up; try again")
	case errors.Is(err, errWrongToken):
		a.denied.Add(1)
		a.config.Logger.Warn("wrong token", "remote", r.RemoteAddr, "method", r.Method, "path", r.URL.Path)
		w.Header().Set("WWW-Authenticate", `Bearer realm="holter", error="invalid_token"`)
		writeProblem(w, http.StatusUnauthorized, "this token is not known, or was revoked; make another with holter tokens create")
	default:
		if need == auth.RoleBeat {
			a.tokens.noteFailure(a.now())
		}
		a.config.Logger.Error("cannot check tokens", "error", err)
		writeLater(w, http.StatusServiceUnavailable, time.Second, "tokens cannot be checked just now; try again")
	}
}

// guard returns a handler that refuses requests without the role.
func (a *API) guard(need auth.Role, next http.HandlerFunc) http.HandlerFunc {
	if need == "" {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := a.authorize(w, r, need, false)
		if !ok {
			return
		}
		if need == auth.RoleAdmin {
			r = r.WithContext(context.WithValue(r.Context(), whoKey{}, who))
		}
		next(w, r)
	}
}

// whoKey is the key of the token that a request of an administrator came with.
type whoKey struct{}

// tokenOf returns the token that a request of an administrator came with; the zero one if it needed
// none.
func tokenOf(ctx context.Context) auth.Token {
	who, _ := ctx.Value(whoKey{}).(auth.Token)
	return who
}
