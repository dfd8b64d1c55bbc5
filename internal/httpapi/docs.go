package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/danielgtaylor/huma/v2"
)

// openAPIType is the media type of the description.
const openAPIType = "application/openapi+json"

//go:embed docs.html
var docsHTML string

// registerDocs adds /openapi.json and /docs, which describe all routes that were registered before.
// Each is rendered once, when it is first asked for: most processes are never asked.
func (a *API) registerDocs(mux routes, spec *huma.OpenAPI) {
	describe := sync.OnceValues(func() (text []byte, err error) { return json.Marshal(spec) })
	page := sync.OnceValues(func() (docs []byte, err error) { return docsPage(spec) })
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		text, err := describe()
		if err != nil {
			writeProblem(w, http.StatusInternalServerError, "describe the API: "+err.Error())
			return
		}
		sum := sha256.Sum256(text)
		w.Header().Set("Content-Type", openAPIType)
		w.Header().Set("Cache-Control", "private, no-cache")
		w.Header().Set("ETag", `W/"`+hex.EncodeToString(sum[:12])+`"`) // weak, because it is compressed for some
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		docs, err := page()
		if err != nil {
			writeProblem(w, http.StatusInternalServerError, "page of documentation: "+err.Error())
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		_, _ = w.Write(docs)
	})
}

// docsPage renders docs.html.
func docsPage(spec *huma.OpenAPI) ([]byte, error) {
	page, err := template.New("docs").Funcs(template.FuncMap{
		"operations": operationsOf, "role": roleFor,
		"type":   func(s *huma.Schema) string { return typeOf(spec, s) },
		"fields": func(s *huma.Schema) []docsField { return fieldsOf(spec, s, 0) },
	}).Parse(docsHTML)
	if err != nil {
		return nil, err
	}
	var docs bytes.Buffer
	err = page.Execute(&docs, spec)
	return docs.Bytes(), err
}

// docsField is a field of an object at some depth.
type docsField struct {
	Name, Type, Meaning string
	Depth               int
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
