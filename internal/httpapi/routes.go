package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/httpapi/auth"
)

// routes is a mux for huma and for other routes. Each route requires its role.
type routes struct {
	*http.ServeMux

	api      *API
	compress func(http.Handler) http.HandlerFunc
}

// roleFor returns the role that a route requires, and none for health checks and sessions.
func roleFor(method, path string) auth.Role {
	switch {
	case path == "/healthz" || path == "/readyz" || path == sessionPath:
		return ""
	case path == tokensPath || path == configPath || path == doctorPath:
		return auth.RoleAdmin
	case strings.HasPrefix(path, beatPath) || path == beatsPath:
		return auth.RoleBeat
	case method == http.MethodGet && !strings.HasPrefix(path, "/debug/"):
		return auth.RoleRead
	default:
		return auth.RoleAdmin
	}
}

// HandleFunc adds a route, which requires its role.
func (m routes) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	method, path, _ := strings.Cut(pattern, " ")
	role := roleFor(method, path)
	if isCompressed(path) {
		handler = m.compress(http.HandlerFunc(handler))
	}
	if role == auth.RoleRead && !isStream(path) {
		handler = m.api.turns.handler(handler)
	}
	handler = m.api.guard(role, handler)
	if isStream(path) {
		handler = untilStop(m.api.afterStart(handler))
	}
	m.route(pattern, statusOnce(handler))
}

// route adds a route. It also routes the device whose id is a slash: a mux takes a segment of %2F for
// the end of a path.
func (m routes) route(pattern string, handler http.HandlerFunc) {
	m.ServeMux.HandleFunc(pattern, handler)
	before, after, ok := strings.Cut(pattern, "{id}")
	if !ok {
		return
	}
	slash := "%2F"
	if after == "" {
		slash = "{$}"
	}
	m.ServeMux.HandleFunc(before+slash+after, func(w http.ResponseWriter, r *http.Request) {
		if after == "" && strings.HasSuffix(r.URL.EscapedPath(), "/") {
			m.fallback(w, r)
			return
		}
		r.SetPathValue("id", "/")
		handler(w, r)
	})
}

// fallback answers requests that match no route.
func (m routes) fallback(w http.ResponseWriter, r *http.Request) {
	allowed := m.allowed(r)
	switch {
	case len(allowed) > 0 && r.Method == http.MethodOptions:
		w.Header().Set("Allow", strings.Join(allowed, ", ")+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	case len(allowed) > 0:
		notAllowed(w, strings.Join(allowed, ", "))
	case strings.HasPrefix(r.URL.Path, "/v1/devices/") || strings.HasPrefix(r.URL.Path, beatPath):
		writeProblem(w, http.StatusNotFound, "there is nothing at this path; if it is meant to be a device, write / in its id as %2F")
	default:
		writeProblem(w, http.StatusNotFound, "there is nothing at this path; /docs lists what there is")
	}
}

// allowed returns the methods for which the path has a route.
func (m routes) allowed(r *http.Request) []string {
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		_, pattern := m.Handler(other)
		headBeat := method == http.MethodHead && strings.Contains(pattern, beatPath)
		if !strings.HasPrefix(beatPath, pattern) && !strings.HasSuffix(pattern, "{$}") && !headBeat {
			found = append(found, method)
		}
	}
	if slices.Contains(found, r.Method) { // the route itself answered that there is nothing
		return nil
	}
	return found
}

func notAllowed(w http.ResponseWriter, methods string) {
	w.Header().Set("Allow", methods)
	writeProblem(w, http.StatusMethodNotAllowed, "this path takes "+methods+" and nothing else; /docs lists what there is")
}
