package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of jobs is sent 1,000 jobs at a time, and 8 MiB; an error names the line.
func TestJobsImport(t *testing.T) {
	var sizes []int
	next := 1
	t.Setenv("HOLTER_API", serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Jobs []struct{ URL string } }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/v1/jobs/bulk" {
			t.Error(r.URL, err)
		}
		made := struct {
			Jobs []int `json:"jobs"`
		}{}
		for i, job := range request.Jobs {
			switch job.URL {
			case "bad":
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = fmt.Fprintf(w, `{"status":422,"title":"Unprocessable Entity","detail":"jobs[%d]: \"bad\" is no URL"}`, i)
				return
			case "strange":
				_, _ = io.WriteString(w, "{}")
				return
			}
			made.Jobs = append(made.Jobs, next+i)
		}
		sizes, next = append(sizes, len(made.Jobs)), next+len(made.Jobs)
		_ = json.NewEncoder(w).Encode(made)
	})))
	path := filepath.Join(t.TempDir(), "jobs.jsonl")
	good, large := `{"url":"u","body":1}`+"\n", `{"url":"u","body":"`+strings.Repeat("x", 1<<20)+`"}`+"\n"
	for _, c := range []struct {
		name, file string
		args       []string
		requests   string
		out, err   string
	}{
		{"three requests", strings.Repeat(good, 2500), nil, "[1000 1000 500]", "2,500 jobs enqueued\n", ""},
		{"one job, blank lines", "\n" + good + "\n", nil, "[1]", "1 job enqueued\n", ""},
		{"none", "", nil, "[]", "0 jobs enqueued\n", ""},
		{"numbers", strings.Repeat(good, 1001), []string{"--json"}, "[1000 1]", "3501]}\n{\"jobs\":[3502]}\n", ""},
		{"large ones", strings.Repeat(large, 9), nil, "[7 2]", "9 jobs enqueued\n", ""},
		{"a bad one", strings.Repeat(good, 1004) + "\n" + `{"url":"bad","body":1}` + "\n" + good, nil, "[1000]", "", `:1006: `},
		{"what is enqueued", strings.Repeat(good, 1004) + `{"url":"bad","body":1}`, nil, "[1000]", "", `"bad" is no URL; the jobs up to line 1000 are enqueued`},
		{"no JSON", good + "{\n", nil, "[]", "", ":2: the line is not JSON; no job is known to be enqueued"},
		{"a long line", good + strings.Repeat("x", 2<<20), nil, "[]", "", ":2: the line has more than 1114112 bytes"},
		{"a strange answer", `{"url":"strange"}`, nil, "[]", "", "not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sizes = []int{}
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got := typeLine(t.Context(), t, append([]string{"jobs", "import", path}, c.args...)...)
			if fmt.Sprint(sizes) != c.requests || !strings.HasSuffix(got.stdout, c.out) || !strings.Contains(got.stderr, c.err) || (got.code == 0) != (c.err == "") {
				t.Errorf("requests of %v jobs, want %s; code %d\n%.300s\n%s", sizes, c.requests, got.code, got.stdout, got.stderr)
			}
		})
	}
	if got := typeLine(t.Context(), t, "jobs", "import", path+".none"); got.code == 0 || !strings.Contains(got.stderr, "no such file") {
		t.Errorf("a file that is not there: %+v", got)
	}
}
