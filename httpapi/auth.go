package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi/auth"
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

// authorize reports whether a request has the role, and returns the name of its token. It answers a
// request that does not. With inQuery the secret may be in the query.
func (a *API) authorize(w http.ResponseWriter, r *http.Request, need auth.Role, inQuery bool) (name string, ok bool) {
	if need == "" || a.tokens == nil {
		return "", true
	}
	switch required, err := a.config.Auth.Required(); {
	case err != nil:
		writeLater(w, http.StatusServiceUnavailable, time.Second, "it is not known yet whether a token is needed; try again")
		return "", false
	case !required && !(a.config.Local && fromElsewhere(r)):
		return "", true
	}
	secret := bearer(r)
	if secret == "" && inQuery {
		secret = r.URL.Query().Get("token")
	}
	if secret == "" {
		a.denied.Add(1)
		w.Header().Set("WWW-Authenticate", `Bearer realm="holter"`)
		writeProblem(w, http.StatusUnauthorized, fmt.Sprintf("this needs a token with the role %s; send the header Authorization: Bearer TOKEN", need))
		return "", false
	}
	who, err := a.tokens.lookup(r.Context(), secret, addressOf(r), a.now(), tokenFresh)
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
	case err != nil:
		if need == auth.RoleBeat {
			a.tokens.noteFailure(a.now())
		}
		a.config.Logger.Error("cannot check tokens", "error", err)
		writeLater(w, http.StatusServiceUnavailable, time.Second, "tokens cannot be checked just now; try again")
	case !who.Role.Includes(need):
		a.denied.Add(1)
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="holter", error="insufficient_scope", scope="%s"`, need))
		writeProblem(w, http.StatusForbidden, fmt.Sprintf("this needs a token with the role %s; the role of %q is %s", need, who.Name, who.Role))
	default:
		return who.Name, true
	}
	return "", false
}

// guard returns a handler that refuses requests without the role.
func (a *API) guard(need auth.Role, next http.HandlerFunc) http.HandlerFunc {
	if need == "" || a.tokens == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		name, ok := a.authorize(w, r, need, false)
		if !ok {
			return
		}
		if need == auth.RoleAdmin {
			r = r.WithContext(context.WithValue(r.Context(), whoKey{}, name))
		}
		next(w, r)
	}
}

// whoKey is the key of the name of the token that a request came with.
type whoKey struct{}

// bearer returns the secret in a request's header, or nothing.
func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}
