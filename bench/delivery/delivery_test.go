package delivery

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-devices", "1"}, {"-claims", "1"}, {"-only", "("}, {"-rounds", "0"}} {
		if err := run.Main(t.Context(), append([]string{"delivery"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestQuick makes every measurement that takes no server, on a small scale. A measurement fails unless each event arrives once.
func TestQuick(t *testing.T) {
	var out bytes.Buffer
	args := []string{"delivery", "-quick", "-only", "webhooks|latency|SQLite|silent/delivered|recovery"}
	if err := run.Main(t.Context(), args, nil, &out, t.Output(), Command()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### 1,000 devices fall silent", "\n| silent/delivered | ", "\n| webhooks/bare | 1 | ", "\n| webhooks/1 | 1 | ", "\n| webhooks/100 | ",
		"\n| recovery | ", "\n| SQLite | ", "\n5 events, one every 20ms, arrived",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, &out)
		}
	}
}

func TestWeigh(t *testing.T) {
	at := time.Unix(1000, 0)
	committed, arrivals := make(map[string]time.Time), make(map[string]time.Time)
	for i := range 100 {
		id := strconv.Itoa(i)
		committed[id], arrivals[id] = at, at.Add(time.Duration(i)*time.Millisecond)
	}
	var l latency
	if err := l.weigh(committed, arrivals); err != nil || l.P50 != 50*time.Millisecond || l.P99 != 99*time.Millisecond || l.Max != l.P99 {
		t.Errorf("%+v, %v", l, err)
	}
	delete(arrivals, "7")
	if err := l.weigh(committed, arrivals); err == nil {
		t.Error("one that did not come is not missed")
	}
}
