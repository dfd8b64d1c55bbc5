package console

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

//go:embed plain.html
var plainHTML string

// plainList is the list of devices as a page without JavaScript.
type plainList struct {
	api  http.Handler
	page *template.Template
}

// plainPage is what its page shows.
type plainPage struct {
	Stats struct {
		Devices int            `json:"devices"`
		States  map[string]int `json:"states"`
		AsOf    string         `json:"as_of"`
	}
	List struct {
		Devices []struct {
			ID       string `json:"id"`
			State    string `json:"state"`
			Reason   string `json:"reason"`
			Group    string `json:"group"`
			LastSeen string `json:"last_seen"`
			Since    string `json:"since"`
		} `json:"devices"`
		Next string `json:"next"`
	}
	State, After, Problem string
}

func newPlain(api http.Handler) (*plainList, error) {
	page, err := template.New("plain").Parse(plainHTML)
	return &plainList{api, page}, err
}

func (p *plainList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var page plainPage
	page.State, page.After = r.URL.Query().Get("state"), r.URL.Query().Get("after")
	err := p.ask(r, "/v1/stats", nil, &page.Stats)
	if err == nil {
		query := url.Values{"sort": {"id"}, "limit": {"200"}}
		if page.State != "" {
			query.Set("state", page.State)
		}
		if page.After != "" {
			query.Set("after", page.After)
		}
		err = p.ask(r, "/v1/devices", query, &page.List)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		page.Problem = err.Error()
	}
	_ = p.page.Execute(w, &page) // the browser may be gone
}

// ask asks the API what the request may ask, and reads its answer.
func (p *plainList) ask(r *http.Request, path string, query url.Values, into any) error {
	q := r.Clone(r.Context())
	q.Method, q.URL, q.RequestURI = http.MethodGet, &url.URL{Path: path, RawQuery: query.Encode()}, ""
	q.Header.Del("Accept-Encoding")
	q.Header.Del("If-None-Match")
	answer := recorder{header: make(http.Header), status: http.StatusOK}
	p.api.ServeHTTP(&answer, q)
	if answer.status != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		_ = json.Unmarshal(answer.body, &problem) // else the status has to do
		return fmt.Errorf("%d: %s", answer.status, problem.Detail)
	}
	return json.Unmarshal(answer.body, into)
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}
