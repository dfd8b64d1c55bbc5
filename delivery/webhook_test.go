package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/delivery"
)

// far answers POSTs of messages {"id":N}, one or an array of them, and keeps which ones they had.
type far struct {
	answer func(ids []int) int
	came   [][]int
}

// RoundTrip implements http.RoundTripper.
func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	text := string(body)
	if !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	var list []struct{ ID int }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	var ids []int
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	f.came = append(f.came, ids)
	code := f.answer(ids)
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}

// numbered returns messages from 1 to n, each of some bytes.
func numbered(n, size int) []delivery.Message {
	var list []delivery.Message
	for i := range n {
		m := message(strconv.Itoa(i+1), fmt.Sprintf(`{"id":%d}`, i+1))
		m.Data = append(m.Data, strings.Repeat(" ", max(size-len(m.Data), 0))...)
		list = append(list, m)
	}
	return list
}

// fates writes what became of each message: delivered, failed, dead, or not sent and waiting.
func fates(results []delivery.Result) string {
	var b strings.Builder
	for i := range results {
		switch r := &results[i]; {
		case r.Permanent:
			b.WriteByte('x')
		case r.Err != nil:
			b.WriteByte('f')
		case !r.Again.IsZero():
			b.WriteByte('w')
		default:
			b.WriteByte('d')
		}
	}
	return b.String()
}

// An array that is refused is sent piece by piece, and only what is refused alone is dead.
func TestWebhookRefused(t *testing.T) {
	with := func(id, code int) func(ids []int) int {
		return func(ids []int) int {
			if slices.Contains(ids, id) {
				return code
			}
			return 204
		}
	}
	byLength := func(codes map[int]int) func(ids []int) int {
		return func(ids []int) int { return codes[len(ids)] }
	}
	for _, c := range []struct {
		name     string
		answer   func(ids []int) int
		want     string
		requests int
	}{
		{"the first", with(1, 400), "xddddddd", 5},
		{"one in the middle", with(5, 422), "ddddxddd", 9},
		{"the last", with(8, 413), "dddddddx", 5},
		{"all", func([]int) int { return 400 }, "xxxxxxxx", 9},
		{"arrays", byLength(map[int]int{1: 200, 2: 400, 8: 400}), "dddddddd", 15},
		{"then it fails", byLength(map[int]int{8: 400, 1: 200, 2: 503}), "dffwwwww", 3},
		{"then it is gone", byLength(map[int]int{8: 400, 1: 200, 2: 410}), "dffwwwww", 3},
		{"not for a message", with(5, 404), "ffffffff", 1},
		{"not for now", with(5, 429), "ffffffff", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &far{answer: c.answer}
			results := delivery.NewWebhook(f).Deliver(t.Context(), numbered(8, 0))
			if got := fates(results); got != c.want || len(f.came) != c.requests {
				t.Errorf("%s after %d requests %v, want %s after %d", got, len(f.came), f.came, c.want, c.requests)
			}
		})
	}
}

// An array has 1 MiB at most, and what comes behind one that failed is not sent.
func TestWebhookBytes(t *testing.T) {
	for _, c := range []struct {
		name       string
		n, size    int
		fails      int // the request that does
		want, came string
	}{
		{"small ones", 5, 10, 0, "ddddd", "[[1 2 3 4 5]]"},
		{"just so", 4, 512 << 10, 0, "dddd", "[[1 2] [3 4]]"},
		{"large ones", 5, 500_000, 0, "ddddd", "[[1 2] [3 4] [5]]"},
		{"larger than that", 3, 3 << 20, 0, "ddd", "[[1] [2] [3]]"},
		{"the first fails", 5, 500_000, 1, "ffwww", "[[1 2]]"},
		{"the second fails", 5, 500_000, 2, "ddffw", "[[1 2] [3 4]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &far{}
			f.answer = func([]int) int {
				if len(f.came) == c.fails {
					return 500
				}
				return 200
			}
			results := delivery.NewWebhook(f).Deliver(t.Context(), numbered(c.n, c.size))
			if got := fates(results); got != c.want || fmt.Sprint(f.came) != c.came {
				t.Errorf("%s after %v, want %s after %s", got, f.came, c.want, c.came)
			}
		})
	}
}

// A request is begun only with as much time left as has gone by, so that it is the receiver who is late if one is.
func TestWebhookHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func([]int) int {
			time.Sleep(3 * time.Second)
			return 200
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if got := fates(delivery.NewWebhook(f).Deliver(ctx, numbered(5, 1<<20))); got != "ddwww" {
			t.Errorf("%s, want ddwww", got)
		}
	})
}

// One bad event in a batch makes one dead letter.
func TestWebhookBadEvent(t *testing.T) {
	rc := newReceiver(t, func(_ int, r request, w http.ResponseWriter) {
		if strings.Contains(r.body, `"dev-3:1"`) {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	r := newRig(t, delivery.Config{})
	r.endpoint("ops", "webhook", rc.URL, `{"batch":100}`)
	r.check(r.engine.PauseQueue(t.Context(), delivery.DefaultQueue, true))
	r.append("dev-1", "dev-2", "dev-3", "dev-4", "dev-5", "dev-3")
	r.check(r.engine.PauseQueue(t.Context(), delivery.DefaultQueue, false))
	r.idle()
	if dead := r.dead(); len(dead) != 1 || dead[0].Message != "dev-3:1" {
		t.Errorf("dead letters %+v, want that of dev-3:1", dead)
	}
	if st := r.engine.Stats().Endpoints[1]; st.Delivered != 5 {
		t.Errorf("%d delivered, want 5", st.Delivered)
	}
}
