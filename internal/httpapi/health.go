package httpapi

import (
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// registerHealth adds health checks and metrics, whose clients do not read JSON.
func (a *API) registerHealth(mux routes, api huma.API, metrics http.Handler) {
	add := func(id, summary, description, ok string, problems map[string]string, serve http.HandlerFunc) {
		op := operation("health", id, "GET /"+id, summary, description)
		op.Responses = textResponses("text/plain", ok, problems)
		mux.describe(api, serve, &op)
	}
	add("healthz", "Whether the process is alive", "It answers from the beginning of the start, and needs no token.", "ok", nil, func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") })
	add("readyz", "Whether the process can do its work",
		"503 while it starts, and while the database does not answer. Lines below the ok are warnings. It needs no token.", "ok", map[string]string{"503": "The reason why it cannot"}, a.ready)
	add("metrics", "Metrics for Prometheus", "They are listed in docs/reference/metrics.md.", "Text exposition format", nil, metrics.ServeHTTP)
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
func textResponses(kind, ok string, problems map[string]string) map[string]*huma.Response {
	responses := map[string]*huma.Response{
		"200": {Description: ok, Content: map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: huma.TypeString}}}},
	}
	for status, meaning := range problems {
		responses[status] = problemResponse(meaning)
	}
	return responses
}

// problemResponse describes a problem.
func problemResponse(meaning string) *huma.Response {
	return &huma.Response{Description: meaning, Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/ErrorModel"}},
	}}
}

// responseOf describes a problem with more fields.
func responseOf[P any](spec *huma.OpenAPI, meaning string) *huma.Response {
	return &huma.Response{Description: meaning, Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: huma.SchemaFromType(spec.Components.Schemas, reflect.TypeFor[P]())},
	}}
}
