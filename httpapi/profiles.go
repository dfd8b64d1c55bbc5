package httpapi

import (
	"net/http"
	"net/http/pprof"

	"github.com/danielgtaylor/huma/v2"
)

// registerProfiles adds the profiles of Go's runtime.
func (a *API) registerProfiles(mux routes, api huma.API) {
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", untilStop(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", untilStop(pprof.Trace))
	mux.describe(api, untilStop(pprof.Index), &huma.Operation{
		OperationID: "profiles", Method: http.MethodGet, Path: "/debug/pprof/", Tags: []string{"health"},
		Summary:     "Profiles of the process, for go tool pprof",
		Description: "Below it are heap, goroutine, profile?seconds=30 and others. A profile may take less than a minute.",
		Responses: map[string]*huma.Response{"200": {Description: "A page with links", Content: map[string]*huma.MediaType{
			"text/html": {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
	})
}
