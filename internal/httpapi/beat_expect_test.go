package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

func TestBeatExpect(t *testing.T) {
	cfg := liveness.Config{
		Groups:  []liveness.GroupConfig{{Name: "jobs", Match: "site/*", Policy: liveness.Policy{Expect: "0 5 * * * UTC"}}},
		Devices: map[string]liveness.Policy{"fixed": {Timeout: 10 * time.Minute}},
	}
	const daily = `"expect":"0 3 * * * Europe/Berlin"}`
	steps := []struct{ method, target, body, want string }{ // an error begins with !
		{"GET", "job?expect=0+3+*+*+*&zone=Europe/Berlin&grace=30m", "", `{"timeout_ms":1800000,"interval_ms":86400000,"policy":"announced",` + daily},
		{"GET", "job?expect=0+3+*+*+*+Europe%2FBerlin&grace=30m", "", daily},
		{"GET", "job", "", daily},
		{"GET", "job?expect=0+3+*+*+*&zone=Europe/Berlin&grace=20m", "", "!grace is 20m, and a GET without a token cannot change the 30m that holds"},
		{"GET", "job?expect=0+3+*+*+*&zone=Europe/Berlin&grace=40m", "", "!grace is 40m"},
		{"GET", "job?expect=0+3+*+*+*&zone=Europe/Berlin&grace=30m&interval=1s", "", "!interval is 1s, and a GET without a token cannot change the 1d that holds"},
		{"GET", "job?expect=0+0+1+1,7+*", "", `!expect is "0 0 1 1,7 * UTC", and a GET without a token cannot change the "0 3 * * * Europe/Berlin" that holds`},
		{"GET", "job?ttl=5m", "", `!expect is "", and a GET without a token cannot change the "0 3 * * * Europe/Berlin"`}, // a false alarm each day
		{"GET", "job?interval=1s", "", `!expect is ""`},
		{"GET", "job?ttl=25h", "", `!expect is ""`},
		{"GET", "job", "", daily},
		{"POST", "job?expect=0+3+*+*+*", "", `{"timeout_ms":3600000,"interval_ms":86400000,"policy":"announced","expect":"0 3 * * * UTC"}`},
		{"POST", "job", `{"expect":"0 4 * * MON-FRI","zone":"CET","grace":600}`, `"expect":"0 4 * * MON-FRI CET"}`},
		{"POST", "job?ttl=5m", "", `{"timeout_ms":300000,"interval_ms":100000,"policy":"announced"}`},
		{"GET", "plain", "", `"policy":"default"}`},
		{"GET", "plain?expect=0+3+*+*+*", "", `!cannot change the "" that holds`},
		{"GET", "site%2F1", "", `"expect":"0 5 * * * UTC"}`},
		{"GET", "site%2F1?expect=0+3+*+*+*&grace=365d", "", `{"timeout_ms":3600000,"interval_ms":86400000,"policy":"group jobs","expect":"0 5 * * * UTC"}`}, // which overrides it
		{"GET", "fixed", "", `"policy":"device"}`},
		{"GET", "fixed?expect=0+3+*+*+*", "", "!cannot change"},
		{"POST", "fixed?expect=0+3+*+*+*", "", `{"timeout_ms":600000,"interval_ms":86400000,"policy":"device","expect":"0 3 * * * UTC"}`},
		{"POST", "job?expect=0+3+*+*+*&ttl=25h", "", "!expect and ttl both say when the next heartbeat is due"},
		{"POST", "job?zone=CET", "", "!zone and grace belong to expect"},
		{"POST", "job?expect=0+3+*+*+*&zone=Europe/Bonn", "", `!expect: there is no time zone "Europe/Bonn"`},
		{"POST", "job?expect=0+3+30+2+*", "", "!expect: it never fires"},
		{"POST", "job?expect=0+3+*+*+*&grace=0", "", "!query.grace"},
		{"POST", "job", `{"expect":"0 25 * * *"}`, "!expect: field 2 (hour) is 25"},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		for _, tt := range steps {
			what := tt.method + " " + tt.target + " " + tt.body
			w := send(h, tt.method, "/v1/beat/"+tt.target, tt.body)
			if tt.want[0] == '!' {
				wantProblem(t, w, what, http.StatusUnprocessableEntity, tt.want[1:])
			} else if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s = %d %s, want %s", what, w.Code, w.Body, tt.want)
			}
		}
		w := send(h, "POST", "/v1/beats", `[{"id":"b","expect":"0 3 * * *"},{"id":"c","expect":"0 3 * * *","ttl":"5m"},{"id":"d","expect":"x"}]`)
		for _, part := range []string{`"accepted":1`, "expect and ttl both", "expect: the expression has 1 fields: want 5"} {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("a batch: %s, want %s", w.Body, part)
			}
		}
		d := getJSON[httpapi.Device](t, h, "/v1/devices/b")
		if d.Policy.Expect != "0 3 * * * UTC" || d.Expected.Hour() != 3 || !d.Deadline.Equal(d.Expected.Add(time.Hour)) {
			t.Errorf("%+v", d)
		}
	})
}
