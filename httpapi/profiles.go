package httpapi

import (
	"net/http/pprof"

	"github.com/danielgtaylor/huma/v2"
)

// registerProfiles adds the profiles of Go's runtime.
func (a *API) registerProfiles(mux routes, api huma.API) {
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", untilStop(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", untilStop(pprof.Trace))
	op := operation("health", "profiles", "GET /debug/pprof/", "Profiles of the process, for go tool pprof",
		"Below it are heap, goroutine, profile?seconds=30 and others. A profile may take less than a minute.")
	op.Responses = textResponses("text/html", "A page with links", nil)
	mux.describe(api, untilStop(pprof.Index), &op)
}
