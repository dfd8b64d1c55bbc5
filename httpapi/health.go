package httpapi

import (
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// registerHealth adds the routes that are for machines that know no JSON.
func (a *API) registerHealth(mux *http.ServeMux, api huma.API, metrics http.Handler) {
	plain(mux, api, &huma.Operation{
		OperationID: "healthz", Path: "/healthz", Summary: "Whether the process serves", Tags: []string{"health"},
		Responses: textResponses("ok"),
	}, func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") })
	plain(mux, api, &huma.Operation{
		OperationID: "readyz", Path: "/readyz", Summary: "Whether it can do its work", Tags: []string{"health"},
		Responses: textResponses("ok", "503", "The reason why it cannot"),
	}, a.ready)
	plain(mux, api, &huma.Operation{
		OperationID: "metrics", Path: "/metrics", Summary: "Metrics for Prometheus", Tags: []string{"health"},
		Responses: textResponses("Text exposition format"),
	}, metrics.ServeHTTP)
	mux.HandleFunc("/", fallback(mux))
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.config.Ready(); err != nil {
		writeProblem(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	writeText(w, "ok\n")
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may be gone
}

// plain adds a route that huma does not serve, but describes.
func plain(mux *http.ServeMux, api huma.API, op *huma.Operation, handler http.HandlerFunc) {
	op.Method = http.MethodGet
	mux.HandleFunc("GET "+op.Path, handler)
	api.OpenAPI().AddOperation(op)
}

// textResponses describes a text, and problems by status and meaning.
func textResponses(ok string, problems ...string) map[string]*huma.Response {
	responses := map[string]*huma.Response{
		"200": {Description: ok, Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
	}
	for i := 0; i+1 < len(problems); i += 2 {
		responses[problems[i]] = &huma.Response{
			Description: problems[i+1],
			Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/ErrorModel"}},
			},
		}
	}
	return responses
}
