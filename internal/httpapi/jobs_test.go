package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/command"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// delivering returns an API with engines that are not running, so that jobs and runs stay.
func delivering(t *testing.T, cfg httpapi.Config) (http.Handler, *delivery.Engine) {
	t.Helper()
	return deliveringIn(t, "sqlite:"+t.TempDir()+"/holter.db", cfg)
}

func deliveringIn(t *testing.T, url string, cfg httpapi.Config) (http.Handler, *delivery.Engine) {
	t.Helper()
	db, err := sqldb.New(sqldb.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := delivery.New(s, outbox, delivery.Config{Node: "node-1", Kinds: map[string]sink.Kind{"command": command.Kind(false)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(s, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	schedules, err := cron.New(db, e, registry, cron.Config{Node: "node-1"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.NoBeats, cfg.Node, cfg.Delivery, cfg.Schedules = true, "node-1", e, schedules
	api, err := httpapi.New(registry, s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return api.Handler(), e
}

const hook = `{"kind":"webhook","target":"https://example.org/hook","settings":{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","headers":{"X-Key":"k"}}}`

func TestDeliverySettings(t *testing.T) {
	h, e := delivering(t, httpapi.Config{})
	ok := func(method, target, body string) {
		t.Helper()
		if w := send(h, method, target, body); w.Code != http.StatusNoContent {
			t.Fatalf("%s %s = %d %s", method, target, w.Code, w.Body)
		}
	}
	ok("PUT", "/v1/endpoints/ops", hook)
	ok("PUT", "/v1/queues/pager", `{"concurrency":3,"rate":2.5,"max_age_ms":60000}`)
	ok("PUT", "/v1/routes/r", `{"endpoint":"ops","queue":"pager","types":["device.*"],"reasons":["silence"],"group":"site-?","device":"a/*","all":true}`)
	if got := get(h, "/v1/endpoints").Body.String(); strings.Contains(got, "MfKQ9") || strings.Count(got, delivery.Hidden) != 2 {
		t.Errorf("endpoints %s", got)
	}
	// What was shown may be sent back.
	ok("PUT", "/v1/endpoints/ops", `{"kind":"webhook","target":"https://example.org/other","settings":{"secret":"(hidden)","headers":{"X-Key":"(hidden)"}}}`)
	if p, err := e.Endpoint("ops"); err != nil || p.Target != "https://example.org/other" || !strings.Contains(string(p.Settings), "MfKQ9") || !strings.Contains(string(p.Settings), `"k"`) {
		t.Errorf("endpoint %+v, %v", p, err)
	}
	queues := getJSON[struct{ Queues []httpapi.Queue }](t, h, "/v1/queues").Queues
	want := httpapi.QueueSettings{
		Concurrency: 3, Rate: 2.5, Attempts: 100, Backoff: 1000, MaxBackoff: 3_600_000, MaxAge: 60_000, MaxJobs: 10_000_000,
	}
	if len(queues) != 2 || queues[0].Name != "default" || queues[1].Name != "pager" || queues[1].QueueSettings != want {
		t.Errorf("queues %+v", queues)
	}
	routes := getJSON[struct{ Routes []httpapi.Route }](t, h, "/v1/routes").Routes
	if len(routes) != 1 || routes[0].Queue != "pager" || routes[0].Endpoint != "ops" || routes[0].Device != "a/*" || !routes[0].All {
		t.Errorf("routes %+v", routes)
	}
	if q := getJSON[httpapi.Queue](t, h, "/v1/queues/pager"); !reflect.DeepEqual(q, queues[1]) || q.OldestAge == nil || *q.OldestAge != 0 {
		t.Errorf("queue %+v, want %+v", q, queues[1])
	}
	if r := getJSON[httpapi.Route](t, h, "/v1/routes/r"); !reflect.DeepEqual(r, routes[0]) {
		t.Errorf("route %+v, want %+v", r, routes[0])
	}
	if p := getJSON[httpapi.Endpoint](t, h, "/v1/endpoints/ops"); p.Name != "ops" || p.Kind != "webhook" || strings.Contains(string(p.Settings), "MfKQ9") {
		t.Errorf("endpoint %+v", p)
	}
	ok("PUT", "/v1/queues/pager/pause", "")
	ok("PUT", "/v1/endpoints/ops/disabled", "")
	if p := getJSON[struct{ Endpoints []httpapi.Endpoint }](t, h, "/v1/endpoints").Endpoints[0]; p.State != "disabled" || p.Note != "by an operator" {
		t.Errorf("endpoint %+v", p)
	}
	ok("DELETE", "/v1/endpoints/ops/disabled", "")
	ok("DELETE", "/v1/queues/pager/pause", "")
	for _, c := range []struct {
		method, target, body string
		code                 int
		detail               string
	}{
		{"DELETE", "/v1/queues/pager", "", 409, `the route "r" leads to the queue "pager"`},
		{"DELETE", "/v1/endpoints/ops", "", 409, `the route "r" leads to the endpoint "ops"`},
		{"DELETE", "/v1/queues/default", "", 422, "always there"},
		{"GET", "/v1/queues/none", "", 404, `no queue "none"`},
		{"GET", "/v1/endpoints/none", "", 404, `no endpoint "none"`},
		{"GET", "/v1/routes/none", "", 404, `no route "none"`},
		{"DELETE", "/v1/queues/none", "", 404, `no "none" among the queues`},
		{"PUT", "/v1/queues/a%20b", `{}`, 422, "is no name"},
		{"PUT", "/v1/queues/none/pause", "", 404, `no queue "none"`},
		{"PUT", "/v1/queues/x", `{"rate":-1}`, 422, "body.rate"},
		{"PUT", "/v1/queues/x", `{"backoff_ms":1e12}`, 422, "backoff is"},
		{"PUT", "/v1/queues/x", `{"backoff_ms":1e300}`, 422, "backoff is 8784h0m0s, want"},
		{"PUT", "/v1/queues/x", `{"backoff_ms":1e9,"max_age_ms":1}`, 422, "body.max_age_ms"},
		{"PUT", "/v1/queues/x", `{"backoff_ms":1e9}`, 422, "want 1 ms to 24 h; max_backoff is"},
		{"PUT", "/v1/queues/x", `{"concurrency":0}`, 422, "body.concurrency"},
		{"PUT", "/v1/queues/x", `{"backoff_ms":0}`, 422, "body.backoff_ms"},
		{"PUT", "/v1/queues/x", `{"max_backoff_ms":0}`, 422, "body.max_backoff_ms"},
		{"PUT", "/v1/queues/x", `{"max_age_ms":0}`, 422, "body.max_age_ms"},
		{"PUT", "/v1/endpoints/x", `{"kind":"fax","target":"1"}`, 422, `kind "fax"`},
		{"PUT", "/v1/endpoints/x", `{"kind":"command","target":"/bin/true"}`, 422, "not configured to run commands"},
		{"PUT", "/v1/endpoints/x", `{"kind":"webhook","target":"ftp://x"}`, 422, "is no URL"},
		{"PUT", "/v1/endpoints/x", `{"kind":"webhook","target":"https://x","settings":{"secret":"(hidden)"}}`, 422, "secret"},
		{"PUT", "/v1/endpoints/x", `{"kind":"webhook","target":"https://x","settings":[1]}`, 422, "settings"},
		{"PUT", "/v1/routes/x", `{"endpoint":"none"}`, 404, `no endpoint "none"`},
		{"PUT", "/v1/routes/x", `{"endpoint":"ops","types":["device.gone"]}`, 422, `no type of event "device.gone"`},
		{"PUT", "/v1/routes/x", `{"endpoint":"ops","queue":"none"}`, 404, `no queue "none"`},
		{"DELETE", "/v1/routes/x", "", 404, `no "x" among the routes`},
	} {
		wantProblem(t, send(h, c.method, c.target, c.body), c.method+" "+c.target+" "+c.body, c.code, c.detail)
	}
	ok("DELETE", "/v1/routes/r", "")
	ok("DELETE", "/v1/queues/pager", "")
	ok("DELETE", "/v1/endpoints/ops", "")
}

func TestJobs(t *testing.T) {
	h, e := delivering(t, httpapi.Config{})
	if w := send(h, "PUT", "/v1/endpoints/ops", hook); w.Code != http.StatusNoContent {
		t.Fatal(w.Body)
	}
	add := func(body string) uint64 {
		t.Helper()
		var out struct{ Job uint64 }
		w := send(h, "POST", "/v1/jobs", body)
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("POST %s = %d %s", body, w.Code, w.Body)
		}
		return out.Job
	}
	one := add(`{"endpoint":"ops","body":{"a":[1,2]},"ordering_key":"k","idempotency_key":"u"}`)
	if again := add(`{"endpoint":"ops","body":7,"idempotency_key":"u"}`); again != one {
		t.Errorf("the second job with a key has number %d, want %d", again, one)
	}
	two := add(`{"url":"https://example.org/x","body":"text","run_at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	page := getJSON[struct {
		Jobs []httpapi.Job
		Next uint64
	}](t, h, "/v1/jobs?limit=1")
	if len(page.Jobs) != 1 || page.Next != one || page.Jobs[0].Endpoint != "ops" || page.Jobs[0].Queue != "default" || page.Jobs[0].State != "ready" {
		t.Errorf("page %+v", page)
	}
	if job := getJSON[httpapi.Job](t, h, "/v1/jobs/1"); job != page.Jobs[0] {
		t.Errorf("job %+v, want %+v", job, page.Jobs[0])
	}
	page.Jobs = getJSON[struct{ Jobs []httpapi.Job }](t, h, "/v1/jobs?after=1").Jobs
	if len(page.Jobs) != 1 || page.Jobs[0].Job != two || page.Jobs[0].State != "waiting" || page.Jobs[0].Endpoint != "" ||
		page.Jobs[0].URL != "https://example.org/x" {
		t.Errorf("page %+v", page)
	}
	third := add(`{"name":"report.pdf","endpoint":"ops","body":3,"ordering_key":"k"}`)
	for query, want := range map[string][]uint64{
		"state=waiting": {two}, "state=ready&queue=default": {one, third}, "name=report.*": {third}, "name=*&limit=2": {one, two}, "name=no*": nil,
		"ordering_key=k": {one, third}, "ordering_key=k&state=waiting": nil, "endpoint=ops&name=*&after=1": {third},
	} {
		var got []uint64
		for _, job := range getJSON[struct{ Jobs []httpapi.Job }](t, h, "/v1/jobs?"+query).Jobs {
			got = append(got, job.Job)
		}
		if !slices.Equal(got, want) {
			t.Errorf("GET /v1/jobs?%s lists %v, want %v", query, got, want)
		}
	}
	if job := getJSON[httpapi.Job](t, h, fmt.Sprintf("/v1/jobs/%d", third)); job.Name != "report.pdf" || job.Key != "k" || time.Since(job.Created) > time.Hour {
		t.Errorf("job %+v", job)
	}
	if w := send(h, "DELETE", fmt.Sprintf("/v1/jobs/%d", third), ""); w.Code != http.StatusNoContent {
		t.Errorf("delete = %d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		method, target, body string
		code                 int
		detail               string
	}{
		{"GET", "/v1/jobs?state=late", "", 422, "query.state"},
		{"GET", "/v1/jobs?name=%00", "", 422, "control characters"},
		{"POST", "/v1/jobs", `{"body":1}`, 422, "needs a URL or the name of an endpoint"},
		{"POST", "/v1/jobs", `{"url":"https://x","endpoint":"ops","body":1}`, 422, "and not both"},
		{"POST", "/v1/jobs", `{"url":"https://x"}`, 422, "required property body"},
		{"POST", "/v1/jobs", `{"url":"https://x","body":1,"bogus":2}`, 422, "unexpected property"},
		{"POST", "/v1/jobs", `{"url":"https://x","body":1,"deadline":"2020-01-01T00:00:00Z"}`, 422, "deadline"},
		{"POST", "/v1/jobs", `{"url":"https://x","body":1,"deadline":"9999-12-31T00:00:00Z"}`, 422, "want the year 2261 or before"},
		{"POST", "/v1/jobs", `{"url":"https://x","body":1,"run_at":"1500-01-01T00:00:00Z"}`, 422, "lies before 1970"},
		{"POST", "/v1/jobs", `{"endpoint":"none","body":1}`, 404, `no endpoint "none"`},
		{"POST", "/v1/jobs", `{"endpoint":"ops","body":"` + strings.Repeat("x", 2<<20) + `"}`, 413, ""},
		{"GET", "/v1/jobs?queue=none", "", 404, `there is no queue "none"`},
		{"POST", "/v1/endpoints/none/retry-now", "", 404, `there is no endpoint "none"`},
		{"PUT", "/v1/endpoints/playbook-x", `{"kind":"log","target":"a"}`, 409, "belongs to a playbook"},
		{"PUT", "/v1/routes/playbook-x", `{"endpoint":"ops"}`, 409, "belongs to a playbook"},
		{"PUT", "/v1/routes/none/pause", "", 404, `there is no route "none"`},
		{"GET", "/v1/jobs?limit=0", "", 422, "query.limit"},
		{"GET", "/v1/jobs/99", "", 404, "there is no job 99, or it ended so long ago"},
		{"GET", "/v1/jobs/x", "", 422, "path.job"},
		{"DELETE", "/v1/jobs/99", "", 404, "there is no job 99 that has not ended"},
		{"DELETE", "/v1/jobs", "", 422, "say of which queue"},
		{"POST", "/v1/dead-letters/retry", `{}`, 422, "say which dead letters"},
		{"POST", "/v1/dead-letters/delete", `{"all":true,"jobs":[1]}`, 422, "say which dead letters"},
		{"POST", "/v1/dead-letters/delete", `{"jobs":[98,99]}`, 404, "no dead letter has the number 98, 99; nothing"},
	} {
		wantProblem(t, send(h, c.method, c.target, c.body), c.method+" "+c.target+" "+c.body[:min(len(c.body), 80)], c.code, c.detail)
	}
	claimed, err := e.Jobs().Claim(t.Context(), jobs.Lane{Queue: 1, Endpoint: 1}, 10, time.Now(), time.Minute)
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatal(claimed, err)
	}
	job := claimed.Jobs[0]
	if got := getJSON[httpapi.Job](t, h, "/v1/jobs/1"); got.State != "claimed" || got.Term != 1 || got.Node != "" || got.Leased.IsZero() || !got.RunAt.IsZero() {
		t.Errorf("the job that is claimed is %+v, want one of term 1, and nobody to say whose that is", got)
	}
	if _, err := e.Jobs().Ack(t.Context(), []jobs.Ack{{
		Job: job, Outcome: jobs.Dead, Error: "400 Bad Request", Status: 400, Response: "no", Body: *job.Body,
	}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	dead := getJSON[struct {
		DeadLetters []httpapi.DeadLetter `json:"dead_letters"`
	}](t, h, "/v1/dead-letters?bodies=true&endpoint=ops").DeadLetters
	if len(dead) != 1 || dead[0].Job != one || dead[0].Status != 400 || dead[0].Response != "no" || string(dead[0].Body) != `{"a":[1,2]}` || dead[0].Key != "k" {
		t.Errorf("dead letters %+v", dead)
	}
	wantProblem(t, send(h, "POST", "/v1/dead-letters/retry", `{"jobs":[1,7]}`), "replay one and an unknown one", 404, "no dead letter has the number 7; nothing")
	if w := send(h, "POST", "/v1/dead-letters/retry", `{"jobs":[1]}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"number":1`) {
		t.Errorf("retry = %d %s", w.Code, w.Body)
	}
	if w := send(h, "DELETE", "/v1/jobs?queue=default", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"number":2`) {
		t.Errorf("purge = %d %s", w.Code, w.Body)
	}
}

// A job has a priority, is rescheduled, and is shown after its end.
func TestJobLife(t *testing.T) {
	h, e := delivering(t, httpapi.Config{})
	enqueue := func(fields string) uint64 {
		t.Helper()
		w := send(h, "POST", "/v1/jobs", `{"url":"https://x",`+fields+`}`)
		var made struct{ Job uint64 }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body, err)
		}
		return made.Job
	}
	job := enqueue(`"body":1,"priority":"high","name":"report","ordering_key":"k"`)
	path := fmt.Sprintf("/v1/jobs/%d", job)
	if got := getJSON[httpapi.Job](t, h, path); got.Priority != "high" || got.State != "ready" {
		t.Errorf("the new job is %+v", got)
	}
	if w := send(h, "POST", path+"/reschedule", `{"run_at":"`+soon()+`"}`); w.Code != http.StatusNoContent {
		t.Fatal(w.Code, w.Body)
	}
	if got := getJSON[httpapi.Job](t, h, path); got.State != "waiting" || time.Until(got.RunAt) < time.Minute {
		t.Errorf("the job that was put off is %+v", got)
	}
	if w := send(h, "POST", path+"/reschedule", `{}`); w.Code != http.StatusNoContent {
		t.Fatal(w.Code, w.Body)
	}
	var claimed jobs.Claimed
	for range 2 { // the first one looks at the jobs before it
		var err error
		if claimed, err = e.Jobs().Claim(t.Context(), jobs.Lane{Queue: 1}, 10, time.Now(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if len(claimed.Jobs) != 1 {
		t.Fatal(claimed)
	}
	wantProblem(t, send(h, "POST", path+"/reschedule", `{}`), "reschedule a claimed job", 409, "is being delivered")
	began := time.Now().Add(-2 * time.Second)
	_, err := e.Jobs().Ack(t.Context(), []jobs.Ack{{Job: claimed.Jobs[0], Body: *claimed.Jobs[0].Body, Started: began, Status: 201, Response: "made"}}, began.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got := getJSON[httpapi.Job](t, h, path)
	if got.State != "done" || got.Status != 201 || got.Response != "made" || got.TookMS != 1000 || got.Name != "report" || got.Ended.IsZero() || got.Term != 1 {
		t.Errorf("the delivered job is %+v", got)
	}
	if list := getJSON[struct{ Jobs []httpapi.Job }](t, h, "/v1/jobs?state=done&queue=default&ordering_key=k").Jobs; len(list) != 1 || list[0] != got {
		t.Errorf("the delivered jobs are %+v, want %+v", list, got)
	}
	wantProblem(t, send(h, "DELETE", path, ""), "delete a job that ended", 404, "that has not ended")
	first := enqueue(`"body":1,"idempotency_key":"u","window_ms":60000,"debounce":true`)
	if again := enqueue(`"body":2,"idempotency_key":"u","window_ms":60000,"debounce":true`); again != first {
		t.Errorf("a debounced job has the number %d, want %d", again, first)
	}
	for fields, detail := range map[string]string{
		`"body":1,"priority":"urgent"`:                                                                   "body.priority",
		`"body":1,"window_ms":5`:                                                                         "need an idempotency key",
		`"body":1,"debounce":true`:                                                                       "need an idempotency key",
		`"body":1,"idempotency_key":"v","debounce":true`:                                                 "is 0s: want one above 0",
		`"body":1,"idempotency_key":"v","debounce":true,"window_ms":8000000`:                             "up to 2h0m0s",
		`"body":1,"idempotency_key":"v","window_ms":90000000`:                                            "body.window_ms",
		`"body":1,"idempotency_key":"v","debounce":true,"window_ms":5,"run_at":"` + soon() + `"`:         "leave run_at out",
		`"body":1,"idempotency_key":"v","debounce":true,"window_ms":7200000,"deadline":"` + soon() + `"`: "not after the window",
	} {
		wantProblem(t, send(h, "POST", "/v1/jobs", `{"url":"https://x",`+fields+`}`), fields, 422, detail)
	}
}

// soon returns an instant within the next hour.
func soon() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// Many jobs are enqueued in one request, all or none, and the error of one names its index.
func TestBulkJobs(t *testing.T) {
	h, e := delivering(t, httpapi.Config{})
	if w := send(h, "PUT", "/v1/queues/small", `{"max_jobs":2}`); w.Code != http.StatusNoContent {
		t.Fatal(w.Body)
	}
	many := func(n int, last string) string {
		return `{"jobs":[` + strings.Repeat(`{"url":"https://x","body":1},`, n-1) + last + `]}`
	}
	w := send(h, "POST", "/v1/jobs/bulk", `{"jobs":[{"url":"https://x","body":1,"idempotency_key":"a"},{"url":"https://y","body":2},{"url":"https://x","body":3,"idempotency_key":"a"}]}`)
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != `{"jobs":[1,2,1]}` {
		t.Errorf("three jobs, two of them with the same key: %d %s", w.Code, got)
	}
	last := `{"url":"https://x","body":"last"}`
	before := e.Jobs().Depths()[jobs.Lane{Queue: 1}]
	long := `"` + strings.Repeat("x", 900_000) + `"`
	for _, c := range []struct {
		what, body string
		code       int
		detail     string
	}{
		{"no list", `{}`, 422, "required property jobs"},
		{"null", `{"jobs":null}`, 422, "there are 0 jobs, want 1 to 1000"},
		{"no jobs", `{"jobs":[]}`, 422, "body.jobs"},
		{"1,001 jobs", many(1001, last), 422, "body.jobs"},
		{"no target", many(18, `{"body":1}`), 422, "jobs[17]: a job needs a URL or the name of an endpoint"},
		{"no body", many(18, `{"url":"https://x"}`), 422, "body.jobs[17]"},
		{"no such endpoint", many(1000, `{"endpoint":"none","body":1}`), 404, `jobs[999]: there is no endpoint "none"`},
		{"a full queue", `{"jobs":[` + strings.Repeat(`{"url":"https://x","queue":"small","body":1},`, 2) + `{"url":"https://x","queue":"small","body":1}]}`, 503, `jobs[2]: delivery: the queue is full: "small" has 2 jobs`},
		{"8.6 MiB of bodies", `{"jobs":[` + strings.Repeat(`{"url":"https://x","body":`+long+`},`, 9) + `{"url":"https://x","body":` + long + `}]}`, 422, "jobs[9]: the bodies up to this one have 9000020 bytes together"},
		{"11 MiB", many(2, `{"url":"https://x","body":"`+strings.Repeat("x", 11<<20)+`"}`), 413, ""},
	} {
		wantProblem(t, send(h, "POST", "/v1/jobs/bulk", c.body), c.what, c.code, c.detail)
	}
	if after := e.Jobs().Depths()[jobs.Lane{Queue: 1}]; after != before {
		t.Errorf("requests that were refused have made %d jobs", after-before)
	}
	w = send(h, "POST", "/v1/jobs/bulk", many(1000, last))
	var made struct{ Jobs []uint64 }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || len(made.Jobs) != 1000 || made.Jobs[999] != made.Jobs[0]+999 {
		t.Fatalf("1,000 jobs: %d %.100s, %v", w.Code, w.Body, err)
	}
	if b, err := e.Jobs().Body(t.Context(), made.Jobs[999]); err != nil || string(b.Data) != `"last"` {
		t.Errorf("the last job delivers %v, %v", b, err)
	}
}

// A job may deliver what it says it may, and a page of dead letters with such bodies ends early.
func TestLongBodies(t *testing.T) {
	h, e := delivering(t, httpapi.Config{})
	long := `"` + strings.Repeat("x", delivery.MaxBody-2) + `"`
	const n = 5
	for range n {
		if w := send(h, "POST", "/v1/jobs", `{"url":"https://example.org/x","body":`+long+`}`); w.Code != http.StatusOK {
			t.Fatalf("a body of %d bytes: %d %s", len(long), w.Code, w.Body)
		}
	}
	wantProblem(t, send(h, "POST", "/v1/jobs", `{"url":"https://x","body":" `+long[1:]+`}`), "one byte more", 422, "1048577 bytes")
	claimed, err := e.Jobs().Claim(t.Context(), jobs.Lane{Queue: 1}, n, time.Now(), time.Minute)
	if err != nil || len(claimed.Jobs) != n {
		t.Fatal(claimed, err)
	}
	outcomes := make([]jobs.Ack, n)
	for i, job := range claimed.Jobs {
		outcomes[i] = jobs.Ack{Job: job, Outcome: jobs.Dead, Error: "no", Body: jobs.Body{Data: []byte(long)}}
	}
	if _, err := e.Jobs().Ack(t.Context(), outcomes, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query    string
		letters  int
		next     uint64
		withBody bool
	}{
		{"?limit=1000", n, 0, false},
		{"?bodies=true", 4, 4, true},
		{"?bodies=true&after=4", 1, 0, true},
	} {
		page := getJSON[struct {
			DeadLetters []httpapi.DeadLetter `json:"dead_letters"`
			Next        uint64
		}](t, h, "/v1/dead-letters"+c.query)
		if len(page.DeadLetters) != c.letters || page.Next != c.next || (string(page.DeadLetters[0].Body) == long) != c.withBody {
			t.Errorf("%s: %d dead letters, next %d, want %d, %d", c.query, len(page.DeadLetters), page.Next, c.letters, c.next)
		}
	}
}

// Rows of applications that cannot be jobs are shown in pages, with the reason.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	h, _ := deliveringIn(t, url, httpapi.Config{})
	app, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	err = app.WriteShared(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO holter_outbox (endpoint, body, ordering_key, error) VALUES ('nowhere', '12', 'k', 'no endpoint'),"+
			" ('ops', '1', '', NULL), (NULL, '3', NULL, 'no place')")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	type page struct {
		Jobs []httpapi.Job
		Next uint64
	}
	first := getJSON[page](t, h, "/v1/jobs?state=refused&limit=1")
	want := httpapi.Job{Row: 1, Endpoint: "nowhere", Key: "k", State: "refused", Error: "no endpoint"}
	if len(first.Jobs) != 1 || first.Next != 1 || first.Jobs[0].Created.IsZero() {
		t.Fatalf("the first page: %+v", first)
	}
	if want.Created = first.Jobs[0].Created; first.Jobs[0] != want {
		t.Errorf("shown %+v, want %+v", first.Jobs[0], want)
	}
	for filter, row := range map[string]uint64{"ordering_key=k": 1, "name=*": 1, "ordering_key=x": 0} {
		page := getJSON[page](t, h, "/v1/jobs?state=refused&"+filter)
		if got := len(page.Jobs) > 0 && page.Jobs[0].Row == row; got != (row > 0) {
			t.Errorf("%s: %+v", filter, page)
		}
	}
	if second := getJSON[page](t, h, "/v1/jobs?state=refused&after=1"); len(second.Jobs) != 1 || second.Jobs[0].Row != 3 || second.Next != 0 {
		t.Errorf("the second page: %+v", second)
	}
}
