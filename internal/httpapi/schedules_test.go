package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
)

const nightly = `{"kind":"webhook","when":"0 3 * * *","zone":"Europe/Berlin","settings":{"url":"https://example.org/hook","body":[1]},` +
	`"overlap":"queue(2)","misfire":"all(3)","jitter_ms":1500,"at_most_once":true}`

func TestSchedules(t *testing.T) {
	h, _ := delivering(t, httpapi.Config{})
	ask := func(method, target, body string) httpapi.Schedule {
		t.Helper()
		var out httpapi.Schedule
		w := send(h, method, target, body)
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s %s = %d %s", method, target, w.Code, w.Body)
		}
		return out
	}
	sc := ask("PUT", "/v1/schedules/nightly?new=true", nightly)
	if sc.Name != "nightly" || sc.Next.IsZero() || sc.Next.Hour() != 2 && sc.Next.Hour() != 1 || sc.Overlap != "queue(2)" || sc.Misfire != "all(3)" || sc.Jitter != 1500 ||
		!sc.Once || sc.Zone != "Europe/Berlin" || string(sc.Settings) != `{"url":"https://example.org/hook","body":[1]}` {
		t.Errorf("schedule %+v", sc)
	}
	if again := ask("GET", "/v1/schedules/nightly", ""); fmt.Sprint(again) != fmt.Sprint(sc) {
		t.Errorf("schedule %+v, want %+v", again, sc)
	}
	if sc = ask("PUT", "/v1/schedules/nightly/pause", ""); !sc.Paused || !sc.Next.IsZero() {
		t.Errorf("paused: %+v", sc)
	}
	if sc = ask("DELETE", "/v1/schedules/nightly/pause", ""); sc.Paused || sc.Next.IsZero() {
		t.Errorf("resumed: %+v", sc)
	}
	if list := getJSON[struct{ Schedules []httpapi.Schedule }](t, h, "/v1/schedules").Schedules; len(list) != 1 || list[0].Name != "nightly" {
		t.Errorf("list %+v", list)
	}
	for range 3 {
		if w := send(h, "POST", "/v1/schedules/nightly/run", ""); w.Code != http.StatusOK {
			t.Fatalf("run = %d %s", w.Code, w.Body)
		}
		if w := send(h, "POST", "/v1/schedules/nightly/run", ""); w.Code == http.StatusConflict {
			break
		}
	}
	wantProblem(t, send(h, "POST", "/v1/schedules/nightly/run", ""), "run without room", 409, "a run still goes on")
	type page struct {
		Runs []httpapi.ScheduleRun
		Next uint64
	}
	runs := getJSON[page](t, h, "/v1/schedule-runs?schedule=nightly&state=idle,done&limit=1")
	if len(runs.Runs) != 1 || runs.Runs[0].Number != 3 || !runs.Runs[0].Manual || runs.Runs[0].State != "idle" || runs.Next != runs.Runs[0].Run {
		t.Errorf("runs %+v", runs)
	}
	if runs = getJSON[page](t, h, fmt.Sprintf("/v1/schedule-runs?before=%d", runs.Next)); len(runs.Runs) != 2 || runs.Runs[0].Number != 2 || runs.Next != 0 {
		t.Errorf("runs %+v", runs)
	}
	for _, c := range []struct {
		method, target, body string
		code                 int
		detail               string
	}{
		{"PUT", "/v1/schedules/nightly?new=true", nightly, 409, `there is a schedule "nightly"`},
		{"PUT", "/v1/schedules/nightly", `{"kind":"report","when":"@daily","settings":{"url":"https://x"}}`, 409, "of kind webhook"},
		{"PUT", "/v1/schedules/x", `{"kind":"webhook","when":"61 * * * *","settings":{"url":"https://x"}}`, 422, `minute`},
		{"PUT", "/v1/schedules/x", `{"kind":"webhook","when":"0 0 31 2 *","settings":{"url":"https://x"}}`, 422, `never fires`},
		{"PUT", "/v1/schedules/x", `{"kind":"webhook","when":"@daily","zone":"Nowhere","settings":{"url":"https://x"}}`, 422, `no time zone "Nowhere"`},
		{"PUT", "/v1/schedules/x", `{"kind":"webhook","when":"@daily","settings":{"endpoint":"none"}}`, 422, `no endpoint "none"`},
		{"PUT", "/v1/schedules/x", `{"kind":"webhook","when":"@daily","overlap":"maybe","misfire":"all(0)"}`, 422, `overlap: "maybe" is none; want skip, allow, or queue(1) to queue(1000); misfire: "all(0)"`},
		{"PUT", "/v1/schedules/x", `{"kind":"command","when":"@daily","settings":{"command":"true"}}`, 422, "not configured to run commands"},
		{"PUT", "/v1/schedules/x", `{"when":"@daily"}`, 422, "required property kind"},
		{"PUT", "/v1/schedules/x", `{"kind":"webhook","when":"@daily","jitter_ms":1e300,"settings":{"url":"https://x"}}`, 422, "jitter:"},
		{"PUT", "/v1/schedules/a%20b", nightly, 422, "is no name"},
		{"GET", "/v1/schedules/x", "", 404, `no schedule "x"`},
		{"DELETE", "/v1/schedules/x", "", 404, `no schedule "x"`},
		{"PUT", "/v1/schedules/x/pause", "", 404, `no schedule "x"`},
		{"POST", "/v1/schedules/x/run", "", 404, `no schedule "x"`},
		{"GET", "/v1/schedule-runs?schedule=x", "", 404, `no schedule "x"`},
		{"GET", "/v1/schedule-runs?state=odd", "", 422, "query.state"},
	} {
		wantProblem(t, send(h, c.method, c.target, c.body), c.method+" "+c.target+" "+c.body[:min(len(c.body), 80)], c.code, c.detail)
	}
	if w := send(h, "DELETE", "/v1/schedules/nightly", ""); w.Code != http.StatusNoContent {
		t.Errorf("delete = %d %s", w.Code, w.Body)
	}
}
