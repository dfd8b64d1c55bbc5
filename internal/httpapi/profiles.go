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
	mux.HandleFunc("GET /debug/pprof/", untilStop(pprof.Index))
	op := operation("health", "profiles", "GET /debug/pprof/{profile}", "Profiles of the process, for go tool pprof",
		"Such as heap, goroutine or profile?seconds=30, which may take less than a minute. /debug/pprof/ is a page with links to all.", http.StatusNotFound)
	op.Parameters = []*huma.Param{
		{Name: "profile", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Its name."},
		{Name: "seconds", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "How long to measure."},
		{Name: "debug", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "1 or 2 for text."},
	}
	op.Responses = textResponses("application/octet-stream", "The profile", nil)
	api.OpenAPI().AddOperation(&op)
}
