package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// explainProblem puts what is wrong with a request into the detail of its problem: not every client shows the list of errors.
func explainProblem(_ huma.Context, _ string, v any) (any, error) {
	p, ok := v.(*huma.ErrorModel)
	if !ok || p.Detail != "validation failed" || len(p.Errors) == 0 {
		return v, nil
	}
	said := make([]string, 0, len(p.Errors))
	for _, e := range p.Errors {
		said = append(said, e.Location+": "+e.Message)
	}
	slices.Sort(said)
	p.Detail = strings.Join(slices.Compact(said), "; ") + "; /docs lists what is allowed"
	return p, nil
}

// missedError is a problem: events were missed.
type missedError struct {
	huma.ErrorModel

	Oldest uint64 `json:"oldest" doc:"Offset of the oldest event that is kept; read on with after = oldest - 1."`
}

// writeProblem answers with a problem outside of huma's operations.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}) // the client may be gone
}

// routes is a mux for huma. A mux takes a last segment of %2F for the end of a path; here it is the device whose id is a slash.
type routes struct{ *http.ServeMux }

// HandleFunc adds a route.
func (m routes) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(pattern, handler)
	if pattern != "GET /v1/devices/{id}" {
		return
	}
	m.ServeMux.HandleFunc("GET /v1/devices/{$}", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.EscapedPath(), "/") {
			fallback(m.ServeMux)(w, r)
			return
		}
		r.SetPathValue("id", "/")
		handler(w, r)
	})
}

// fallback answers requests for which there is no route.
func fallback(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead && routed(mux, r):
			w.Header().Set("Allow", "GET, HEAD")
			writeProblem(w, http.StatusMethodNotAllowed, "the API only reads: use GET")
		case strings.HasPrefix(r.URL.Path, "/v1/devices/"):
			writeProblem(w, http.StatusNotFound, "there is nothing at this path; if it is meant to be a device, write / in its id as %2F")
		default:
			writeProblem(w, http.StatusNotFound, "there is nothing at this path; /docs lists what there is")
		}
	}
}

// routed says whether there is a route for the path with GET.
func routed(mux *http.ServeMux, r *http.Request) bool {
	get := r.Clone(r.Context())
	get.Method = http.MethodGet
	_, pattern := mux.Handler(get)
	return pattern != "/"
}
