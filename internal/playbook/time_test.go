package playbook_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/liveness"
)

// Steps that take their time, by a clock that only goes on when nobody works.
func TestTime(t *testing.T) {
	busy := func(name string, seconds int, after ...string) playbook.Step {
		return playbook.Step{Name: name, After: after, Timeout: 5 * time.Minute, Do: playbook.Busy{For: time.Duration(seconds) * time.Second}}
	}
	patience := func(seconds int) playbook.Step {
		return playbook.Step{Name: "patience", After: []string{}, Do: playbook.Wait{For: time.Duration(seconds) * time.Second}}
	}
	tests := []struct {
		name  string
		steps []playbook.Step
		total time.Duration
		want  string // which busy steps ended, and when
	}{
		{
			name:  "a wait beside a command that takes longer",
			steps: []playbook.Step{busy("long", 15), patience(3), busy("page", 0, "patience")},
			total: 20 * time.Second,
			want:  "page@3 long@15",
		},
		{
			name:  "a wait beside commands that come one after the other",
			steps: []playbook.Step{busy("one", 2), busy("two", 15, "one"), patience(3), busy("page", 0, "patience")},
			total: 20 * time.Second,
			want:  "one@2 page@3 two@17",
		},
		{
			name:  "commands that take longer than a run is worked on at a stretch",
			steps: []playbook.Step{busy("one", 280), busy("two", 280, "one"), busy("three", 60, "two"), busy("four", 0, "three")},
			total: 650 * time.Second,
			want:  "one@280 two@560 three@620 four@620",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var ended []string
				var begin time.Time
				steps := slices.Clone(tt.steps)
				for i := range steps {
					if b, ok := steps[i].Do.(playbook.Busy); ok {
						b.Do = func(step string) {
							mu.Lock()
							defer mu.Unlock()
							ended = append(ended, fmt.Sprintf("%s@%d", step, int(time.Since(begin).Seconds())))
						}
						steps[i].Do = b
					}
				}
				r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: steps})
				r.poll = time.Second // minutes of looking more often would take long
				r.restart()
				begin = time.Now()
				r.event("a", liveness.DeviceOffline)
				time.Sleep(tt.total)
				r.state("a", playbook.RunDone)
				if got := strings.Join(ended, " "); got != tt.want {
					t.Errorf("ended %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// A clock that was ahead is set right while a run is worked on: its waits are as long as they were to be, and a recovery still means nothing
// to a run that ignores it.
func TestClockSetBackAtWork(t *testing.T) {
	for _, fails := range []int{0, 1} { // with 1 the run is stored as one that waits while it is worked on
		synctest.Test(t, func(t *testing.T) {
			var ended []time.Duration
			begin := time.Now()
			busy := playbook.Step{Name: "busy", After: []string{}, Timeout: time.Minute, Do: playbook.Busy{Fails: fails, For: 30 * time.Second, Do: func(string) {
				ended = append(ended, time.Since(begin).Truncate(time.Minute))
			}}}
			last := playbook.Step{Name: "last", Do: playbook.Busy{Do: func(string) { ended = append(ended, time.Since(begin).Truncate(time.Minute)) }}}
			patience := playbook.Step{Name: "patience", After: []string{}, Do: playbook.Wait{For: 10 * time.Minute}}
			r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Recovery: playbook.Ignore, Steps: []playbook.Step{busy, patience, last}})
			r.poll = 5 * time.Second
			r.restart()
			r.ahead.Store(int64(2 * time.Hour))
			r.event("a", liveness.DeviceOffline)
			time.Sleep(5 * time.Second)
			r.later(0) // what waits for an instant, which comes late for jobs with their own clock, looks at it
			time.Sleep(10 * time.Second)
			r.event("a", liveness.DeviceOnline)
			r.ahead.Store(0)
			time.Sleep(12 * time.Minute)
			r.state("a", playbook.RunDone)
			if got := fmt.Sprint(ended); got != "[0s 10m0s]" {
				t.Errorf("steps ended after %s, want 0 and 10 minutes", got)
			}
		})
	}
}
