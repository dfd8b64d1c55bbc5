package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

func TestBeatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		steps := []struct {
			target, body string
			asJSON       bool
			status       int
			want         string // the latest event, or the problem
		}{
			{"job/start?expect=0+3+*+*+*&grace=30m", "", false, 204, "run.started 0 "},
			{"job/exit/0", "all is well\n", false, 204, "run.finished 0 all is well"},
			{"job/exit/3", "a\x00b\xff\n", false, 204, "failed 3 a\uFFFDb\uFFFD"},
			{"job/fail", `{"message":"disk full","exit_status":7,"duration":"2m"}`, true, 204, "failed 7 disk full"},
			{"job/exit/0", `{"message":"quick","duration":"0s"}`, true, 204, "run.finished 0 quick"},
			{"job/exit/1", `{"message":"SECONDS","duration":0}`, true, 204, "failed 1 SECONDS"},
			{"job/exit/1", `{"duration":"-1s"}`, true, 422, `"-1s" is not a duration above 0`},
			{"job/exit/0", strings.Repeat("line\n", 20<<10), false, 204, "run.finished 0 line"},
			{"job/exit/0", strings.Repeat("x", 100<<10+1), false, 413, "at most 102400; send the end of it"},
			{"job/exit/256", "", false, 422, "want a number from 0 to 255"},
			{"job/exit/x", "", false, 422, "want a number from 0 to 255"},
			{"job/exit/2", `{"exit_status":3}`, true, 422, "exit_status is 3, and the path says 2"},
			{"job/fail", `{"exit_status":0}`, true, 422, "want 1 to 255"},
			{"job/fail", `{"reason":"x"}`, true, 422, "body: unknown field"},
			{"job/start", "x", false, 422, "a start has none"},
			{"job/start?expect=x", "", false, 422, "expect: the expression has 1 field"},
		}
		for _, tt := range steps {
			what := fmt.Sprintf("POST %s %.40q", tt.target, tt.body)
			var header []string
			if tt.asJSON {
				header = []string{"Content-Type", "application/json"}
			}
			w := send(h, "POST", "/v1/beat/"+tt.target, tt.body, header...)
			if tt.status != http.StatusNoContent {
				wantProblem(t, w, what, tt.status, tt.want)
				continue
			}
			page := getJSON[eventPage](t, h, "/v1/events?device=job&limit=100")
			e := page.Events[len(page.Events)-1]
			if got := fmt.Sprintf("%s %d %s", strings.TrimPrefix(e.Type, "io.holter.device."), e.Data.ExitStatus, e.Data.Message); w.Code != tt.status || !strings.HasPrefix(got, tt.want) || len(got) > 10<<10+40 {
				t.Errorf("%s = %d %s, and %.80s, want %s", what, w.Code, w.Body, got, tt.want)
			}
		}
		if w := send(h, "GET", "/v1/beat/job/start", ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET of a start = %d", w.Code)
		}
	})
}
