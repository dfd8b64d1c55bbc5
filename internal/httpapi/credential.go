package httpapi

import (
	"net/http"
	"strings"
)

// sessionCookie is the name of the cookie that holds the token of a browser, which cannot send headers
// with an EventSource.
const sessionCookie = "holter_session"

// credential is the secret of the token that a request came with. Its zero value is none.
type credential struct {
	secret string
	cookie bool // the secret is that of the cookie
}

// credentialOf returns the secret in the header of a request, or else in its query if that may be, or
// else in its cookie.
func credentialOf(r *http.Request, inQuery bool) credential {
	if secret := bearer(r); secret != "" {
		return credential{secret: secret}
	}
	if inQuery {
		if secret := r.URL.Query().Get("token"); secret != "" {
			return credential{secret: secret}
		}
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil || cookie.Value == "" || !mayUseCookie(r) {
		return credential{}
	}
	return credential{secret: cookie.Value, cookie: true}
}

// mayUseCookie reports whether the cookie of a request counts. A browser adds cookies to whatever a
// page asks for, and does not tell the ports of a host apart. So a cookie counts only if no page of
// another origin asks, not even one of the AllowOrigins. Over plain HTTP to another machine a browser
// does not say which page asks by GET: then such a page cannot read the answer, and a heartbeat,
// which changes something, needs another credential.
func mayUseCookie(r *http.Request) bool {
	change := *r
	change.Method = http.MethodPost // the check lets each GET pass
	if new(http.CrossOriginProtection).Check(&change) != nil {
		return false
	}
	beatByGet := asChange(r) != r
	return !beatByGet || r.Header.Get("Sec-Fetch-Site") != ""
}

// bearer returns the secret in a request's header, or nothing.
func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// keepCookie tells a browser to send a secret with its requests until it is closed.
func keepCookie(w http.ResponseWriter, r *http.Request, secret string) {
	setCookie(w, &http.Cookie{Value: secret, Secure: overTLS(r)})
}

// dropCookie tells a browser to forget the secret.
func dropCookie(w http.ResponseWriter) { setCookie(w, &http.Cookie{MaxAge: -1}) }

func setCookie(w http.ResponseWriter, c *http.Cookie) {
	c.Name, c.Path, c.HttpOnly, c.SameSite = sessionCookie, "/", true, http.SameSiteStrictMode
	http.SetCookie(w, c)
}

// overTLS reports whether a browser sent a request by HTTPS, to this server or to the proxy before it.
// A client that lies about the proxy only loses its own cookie.
func overTLS(r *http.Request) bool {
	if scheme := r.Header.Get("X-Forwarded-Proto"); scheme != "" {
		return strings.EqualFold(scheme, "https")
	}
	return r.TLS != nil
}
