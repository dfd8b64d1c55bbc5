package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

// registerDocs adds /openapi.json and /docs, which describe all routes that were registered before.
// Both are rendered once.
func (a *API) registerDocs(mux routes, spec *huma.OpenAPI) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("httpapi: describe the API: %w", err)
	}
	page, err := template.New("docs").Parse(docsHTML)
	if err != nil {
		return fmt.Errorf("httpapi: page of documentation: %w", err)
	}
	var docs bytes.Buffer
	if err := page.Execute(&docs, docsOf(spec)); err != nil {
		return fmt.Errorf("httpapi: page of documentation: %w", err)
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(text) // the client may be gone
	})
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		_, _ = w.Write(docs.Bytes())
	})
	return nil
}

// docsPage is the data of docs.html.
type docsPage struct {
	Title, Version, Description string
	Operations                  []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Description, Role string

	Parameters []docsField
	Bodies     []docsBody
	Responses  []docsResponse
}

// docsBody is a body that a request may have.
type docsBody struct {
	Content, Type string
	Fields        []docsField
}

type docsResponse struct {
	Status, Description, Content string
	Fields                       []docsField
}

// docsField is a parameter, or a field of an object at some depth.
type docsField struct {
	Name, In, Type, Meaning string
	Depth                   int
}

func docsOf(spec *huma.OpenAPI) docsPage {
	page := docsPage{Title: spec.Info.Title, Version: spec.Info.Version, Description: spec.Info.Description}
	for _, path := range slices.Sorted(maps.Keys(spec.Paths)) {
		operations := operationsOf(spec.Paths[path])
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			page.Operations = append(page.Operations, operationOf(spec, method, path, operations[method]))
		}
	}
	return page
}

func operationOf(spec *huma.OpenAPI, method, path string, op *huma.Operation) docsOperation {
	shown := docsOperation{
		ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Description: op.Description, Role: string(roleFor(method, path)),
	}
	for _, p := range op.Parameters {
		shown.Parameters = append(shown.Parameters,
			docsField{Name: p.Name, In: p.In, Type: typeOf(spec, p.Schema), Meaning: p.Description})
	}
	if op.RequestBody != nil {
		for _, content := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			schema := op.RequestBody.Content[content].Schema
			shown.Bodies = append(shown.Bodies, docsBody{Content: content, Type: typeOf(spec, schema), Fields: fieldsOf(spec, schema, 0)})
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		shown.Responses = append(shown.Responses, responseOf(spec, status, op.Responses[status]))
	}
	return shown
}

func responseOf(spec *huma.OpenAPI, status string, r *huma.Response) docsResponse {
	out := docsResponse{Status: status, Description: r.Description}
	for content, media := range r.Content {
		out.Content = content
		out.Fields = fieldsOf(spec, media.Schema, 0)
	}
	return out
}

// fieldsOf lists the fields of an object, each followed by the fields of its own object.
func fieldsOf(spec *huma.OpenAPI, s *huma.Schema, depth int) []docsField {
	s = resolve(spec, s)
	if s != nil && s.Items != nil {
		s = resolve(spec, s.Items)
	}
	if s != nil && len(s.OneOf) > 0 {
		s = resolve(spec, s.OneOf[len(s.OneOf)-1])
	}
	if s == nil || depth > 3 {
		return nil
	}
	var fields []docsField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		fields = append(fields, docsField{Name: name, Type: typeOf(spec, p), Meaning: p.Description, Depth: depth})
		fields = append(fields, fieldsOf(spec, p, depth+1)...)
	}
	return fields
}

// typeOf returns the type of a value as text.
func typeOf(spec *huma.OpenAPI, s *huma.Schema) string {
	s = resolve(spec, s)
	if s == nil {
		return ""
	}
	text := s.Type
	if len(s.OneOf) > 0 {
		var kinds []string
		for _, one := range s.OneOf {
			kinds = append(kinds, typeOf(spec, one))
		}
		text = strings.Join(kinds, " or ")
	}
	if s.Items != nil {
		text = "list of " + typeOf(spec, s.Items)
	}
	if s.Format != "" {
		text += " (" + s.Format + ")"
	}
	if len(s.Enum) > 0 {
		text += ": " + strings.Trim(fmt.Sprint(s.Enum), "[]")
	}
	if s.Minimum != nil && s.Maximum != nil {
		text += fmt.Sprintf(", %v to %v", *s.Minimum, *s.Maximum)
	}
	if s.Default != nil {
		text += fmt.Sprintf(", default %v", s.Default)
	}
	return text
}

func resolve(spec *huma.OpenAPI, s *huma.Schema) *huma.Schema {
	if s != nil && s.Ref != "" {
		return spec.Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}
