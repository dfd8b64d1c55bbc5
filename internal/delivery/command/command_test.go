package command_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery/command"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/liveness"
)

func TestMain(m *testing.M) { sinktest.Main(m) }

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, target, settings string
		result                 func(r sink.Result) bool
	}{
		{"takes it", "cat", "", func(r sink.Result) bool { return r.Err == nil && r.Response == `{"a":1}` }},
		{"arguments", "echo", `{"args":["$HOME","*"]}`, func(r sink.Result) bool { return r.Response == "$HOME *\n" }},
		{"shell", `echo "$HOLTER_MESSAGE_ID $HOLTER_KEY $HOLTER_EVENT_TYPE $1"; pwd`, `{"shell":true,"args":["x"],"dir":` + strconv.Quote(dir) + `}`, func(r sink.Result) bool {
			return r.Response == "m1 k device.late x\n"+dir+"\n"
		}},
		{"fails", "echo no >&2; exit 3", `{"shell":true}`, func(r sink.Result) bool { return r.Err != nil && r.Status == 3 && r.Response == "no\n" }},
		{"hangs with a child", "sleep 100 & sleep 100", `{"shell":true}`, func(r sink.Result) bool {
			return r.Err != nil && strings.Contains(r.Err.Error(), "killed")
		}},
		{"talks without end", "yes", "", func(r sink.Result) bool { return r.Err != nil && len(r.Response) == 4096 }},
		{"another directory", "pwd", `{"dir":"/no/such/directory"}`, func(r sink.Result) bool { return r.Err != nil && !r.Permanent }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sinktest.New(t, command.Kind(true), c.target, c.settings)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			m := sinktest.Message("m1", `{"a":1}`)
			m.Event = &liveness.Event{Type: liveness.DeviceLate}
			if r := s.Deliver(ctx, []sink.Message{m}); !c.result(r[0]) {
				t.Errorf("%+v", r)
			}
		})
	}
	for _, c := range []struct{ name, target, settings string }{
		{"nothing", "", ""},
		{"not found", "no-such-program", ""},
		{"batch", "cat", `{"batch":2}`},
		{"unknown setting", "cat", `{"timeout":2}`},
	} {
		if _, err := command.Kind(true)(c.target, json.RawMessage(c.settings)); err == nil {
			t.Errorf("%s: taken", c.name)
		}
	}
}
