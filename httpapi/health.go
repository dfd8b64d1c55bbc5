package httpapi

import (
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// registerHealth adds health checks and metrics, whose clients do not read JSON.
func (a *API) registerHealth(mux routes, api huma.API, metrics http.Handler) {
	operation := func(id, summary string, responses map[string]*huma.Response) *huma.Operation {
		return &huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: "/" + id, Summary: summary, Tags: []string{"health"}, Responses: responses,
		}
	}
	mux.describe(api, func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") },
		operation("healthz", "Whether the process is alive", textResponses("ok")))
	mux.describe(api, a.ready,
		operation("readyz", "Whether the process can do its work", textResponses("ok", "503", "The reason why it cannot")))
	mux.describe(api, metrics.ServeHTTP,
		operation("metrics", "Metrics for Prometheus", textResponses("Text exposition format")))
	mux.ServeMux.HandleFunc("/", mux.fallback)
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.config.Starting(); err != nil {
		writeLater(w, http.StatusServiceUnavailable, time.Second, "starting: "+err.Error())
		return
	}
	if err := a.config.Ready(); err != nil {
		writeProblem(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	text := "ok\n"
	if detail := a.config.Detail(); detail != "" {
		text += detail + "\n"
	}
	writeText(w, text)
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may be gone
}

// describe adds a route that huma describes and does not serve.
func (m routes) describe(api huma.API, handler http.HandlerFunc, op *huma.Operation) {
	m.HandleFunc(op.Method+" "+op.Path, handler)
	api.OpenAPI().AddOperation(op)
}

// textResponses describes a text, and problems by status and meaning.
func textResponses(ok string, problems ...string) map[string]*huma.Response {
	responses := map[string]*huma.Response{
		"200": {Description: ok, Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
	}
	for i := 0; i+1 < len(problems); i += 2 {
		responses[problems[i]] = &huma.Response{
			Description: problems[i+1], Content: problemContent(),
		}
	}
	return responses
}

func problemContent() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/ErrorModel"}}}
}
