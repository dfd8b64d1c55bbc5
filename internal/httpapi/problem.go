package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const unknownDevice = "no device with this id was ever seen or configured; /v1/devices?prefix= finds ids by how they begin"

// problemsPage is the page that explains the types of problems. Each has a heading there.
const problemsPage = "https://github.com/holter-iot/holter/blob/main/docs/reference/problems.md"

// problemType returns the type of the problems with a status. It is the address of its heading.
func problemType(status int) string {
	return problemsPage + "#" + strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "-")
}

// newProblem returns a problem.
func newProblem(status int, detail string) huma.ErrorModel {
	return huma.ErrorModel{Type: problemType(status), Title: http.StatusText(status), Status: status, Detail: detail}
}

// explainProblem gives a problem its type. It puts the list of errors into the detail, because not
// every client shows the list.
func explainProblem(_ huma.Context, _ string, v any) (any, error) {
	p, ok := v.(*huma.ErrorModel)
	if ok {
		p.Type = problemType(p.Status)
	}
	if !ok || p.Detail != "validation failed" || len(p.Errors) == 0 {
		return v, nil
	}
	errs := make([]error, 0, len(p.Errors))
	for _, e := range p.Errors {
		errs = append(errs, e)
	}
	p.Detail = sayAll(errs) + "; /docs lists what is allowed"
	return p, nil
}

// sayAll joins the errors of a request in one sentence.
func sayAll(errs []error) string {
	said := make([]string, 0, len(errs))
	for _, err := range errs {
		if detail, ok := errors.AsType[*huma.ErrorDetail](err); ok {
			said = append(said, detail.Location+": "+detail.Message)
		} else {
			said = append(said, err.Error())
		}
	}
	slices.Sort(said)
	return strings.Join(slices.Compact(said), "; ")
}

// missedError is the problem that events were missed.
type missedError struct {
	huma.ErrorModel

	Oldest uint64 `json:"oldest" doc:"Offset of the oldest event that is kept; read on with after = oldest - 1."`
}

// writeProblem answers with a problem where huma does not serve.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	problem := newProblem(status, detail)
	writeJSON(w, status, "application/problem+json", &problem)
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// appendJSON appends a text as JSON.
func appendJSON(to []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // cannot happen for a text
		return append(to, `""`...)
	}
	return append(to, bytes.TrimSpace(quoted)...)
}
