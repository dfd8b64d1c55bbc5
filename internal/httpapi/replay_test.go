package httpapi_test

import (
	"context"
	"iter"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// oneGap is a fake of what keeps gaps: a device was silent for a while once.
type oneGap struct{ from time.Time }

func (o oneGap) Gaps(context.Context, time.Time, time.Time, func(uint32) bool) iter.Seq2[judgement.Gap, error] {
	return o.each
}

func (o oneGap) each(yield func(judgement.Gap, error) bool) {
	for _, g := range []judgement.Gap{
		{Num: 1, At: o.from, End: judgement.EndLimit, Length: 45 * time.Second},
		{Num: 1, Source: "line", Start: time.Minute, Length: 75 * time.Second, At: o.from.Add(10 * time.Minute)},
	} {
		if !yield(g, nil) {
			return
		}
	}
}

func (o oneGap) Breaks(context.Context, time.Time, time.Time) ([]judgement.Break, error) {
	return nil, nil
}

func (o oneGap) GapsKept(context.Context) (time.Time, error) { return o.from, nil }

func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Groups: []liveness.GroupConfig{{Name: "meters", Match: "m*"}}}, 0)
		f.listen(time.Second)
		f.open("m1")
		synctest.Wait()
		from := time.Now()
		time.Sleep(time.Hour)
		h := f.api(httpapi.Config{Replay: replay.New(f.registry, oneGap{from})}).Handler()
		a := getJSON[replay.Answer](t, h, "/v1/replay?group=meters&timeout=60s,90s")
		if len(a.Points) != 2 || a.Points[0].FalseAlarms != 1 || a.Points[1].FalseAlarms != 0 || a.Points[0].Value != 60000 || !a.Clipped {
			t.Errorf("replay = %+v", a)
		}
		for _, tt := range []struct {
			query  string
			status int
			part   string
		}{
			{"device=x", http.StatusNotFound, "x"},
			{"group=x", http.StatusNotFound, "x"},
			{"group=meters&device=m1", http.StatusUnprocessableEntity, "not about both"},
			{"timeout=60s&late_after=30s", http.StatusUnprocessableEntity, "one setting"},
			{"timeout=10m..60s", http.StatusUnprocessableEntity, "ends before it begins"},
			{"timeout=0", http.StatusUnprocessableEntity, "not between"},
			{"timeout=-5s", http.StatusUnprocessableEntity, "not between"},
			{"timeout=rubbish", http.StatusUnprocessableEntity, "not a duration"},
			{"outage_share=2", http.StatusUnprocessableEntity, "not a share"},
			{"from=1h&to=2h", http.StatusUnprocessableEntity, "not after from"},
			{"from=2100-01-01T00:00:00Z", http.StatusUnprocessableEntity, "still to come"},
			{"from=tomorrow", http.StatusUnprocessableEntity, "instant"},
			{"from=3h&to=2h", http.StatusUnprocessableEntity, "recorded since"},
			{"budget=1", http.StatusUnprocessableEntity, "unknown query parameter"},
		} {
			wantProblem(t, ask(h, http.MethodGet, "/v1/replay?"+tt.query), tt.query, tt.status, tt.part)
		}
		without := f.api(httpapi.Config{NoBeats: true}).Handler()
		wantProblem(t, ask(without, http.MethodGet, "/v1/replay"), "without records", http.StatusNotFound, "nothing at this path")
	})
}

// stuckGaps is a fake of what keeps gaps whose database does not answer.
type stuckGaps struct{ oneGap }

func (stuckGaps) Gaps(ctx context.Context, _, _ time.Time, _ func(uint32) bool) iter.Seq2[judgement.Gap, error] {
	return func(yield func(judgement.Gap, error) bool) {
		<-ctx.Done()
		yield(judgement.Gap{}, ctx.Err())
	}
}

// A replay that takes too long ends before the server gives up the answer, and lets the next one begin.
func TestReplayTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		f.listen(time.Second)
		f.open("m1")
		from := time.Now()
		time.Sleep(time.Hour)
		h := f.api(httpapi.Config{Replay: replay.New(f.registry, stuckGaps{oneGap{from}})}).Handler()
		for range 2 {
			begin := time.Now()
			w := get(h, "/v1/replay")
			wantProblem(t, w, "/v1/replay", http.StatusServiceUnavailable, "ask for a shorter window")
			if took := time.Since(begin); took != 50*time.Second || w.Header().Get("Retry-After") != "60" {
				t.Errorf("it took %v, Retry-After %q", took, w.Header().Get("Retry-After"))
			}
		}
	})
}
