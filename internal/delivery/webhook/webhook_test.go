package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/delivery/webhook"
)

func TestMain(m *testing.M) { sinktest.Main(m) }

const (
	secret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	previous = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
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
func numbered(n, size int) []sink.Message {
	var list []sink.Message
	for i := range n {
		m := sinktest.Message(strconv.Itoa(i+1), fmt.Sprintf(`{"id":%d}`, i+1))
		m.Data = append(m.Data, strings.Repeat(" ", max(size-len(m.Data), 0))...)
		list = append(list, m)
	}
	return list
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
			results := webhook.Through(f).Deliver(t.Context(), numbered(8, 0))
			if got := sinktest.Fates(results); got != c.want || len(f.came) != c.requests {
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
			results := webhook.Through(f).Deliver(t.Context(), numbered(c.n, c.size))
			if got := sinktest.Fates(results); got != c.want || fmt.Sprint(f.came) != c.came {
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
		if got := sinktest.Fates(webhook.Through(f).Deliver(ctx, numbered(5, 1<<20))); got != "ddwww" {
			t.Errorf("%s, want ddwww", got)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text string
		want time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"120", 2 * time.Minute},
		{"-1", 0},
		{"1.5", 0},
		{"4294967296", 24 * time.Hour},
		{"99999999999999999999", 24 * time.Hour},
		{"-99999999999999999999", 0},
		{"2147483647", 24 * time.Hour},
		{"soon", 0},
		{"Sun, 01 Mar 2026 12:00:30 GMT", 30 * time.Second},
		{"Sunday, 01-Mar-26 12:01:00 GMT", time.Minute},
		{"Sun, 01 Mar 2026 11:00:00 GMT", 0},
		{"Fri, 01 Mar 2199 11:00:00 GMT", 24 * time.Hour},
	} {
		if got := webhook.RetryAfter(c.text, now); got != c.want {
			t.Errorf("RetryAfter(%q) = %v, want %v", c.text, got, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "120", "Sun, 01 Mar 2026 12:00:30 GMT", "-0", "1e9"} {
		f.Add(text)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if d := webhook.RetryAfter(text, now); d < 0 || d > 24*time.Hour {
			t.Errorf("RetryAfter(%q) = %v", text, d)
		}
	})
}

// An id goes into a header whatever is in it, and the receiver sees the same id in all attempts.
func FuzzHeaderID(f *testing.F) {
	for _, id := range []string{"dev-1:7", "site-7/Gerät 1.2:3", "a\r\nb", "", "%41", "\xff"} {
		f.Add(id)
	}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id string) {
		text := webhook.HeaderID(id)
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f || c == '.' || c == ',' {
				t.Fatalf("HeaderID(%q) = %q", id, text)
			}
		}
		if id == "" {
			return
		}
		header, body := make(http.Header), []byte(`{"id":1}`)
		if err := webhook.Sign(header, id, time.Now(), body, secret, previous); err != nil {
			t.Fatal(err)
		}
		if err := w.Verify(body, header); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if w.Verify([]byte(`{"id":2}`), header) == nil {
			t.Errorf("%q: another body has the same signature", id)
		}
	})
}

func FuzzURL(f *testing.F) {
	for _, text := range []string{"https://example.org/a?b=c", "http://[::1]:80", "http://", "javascript:x", "http://a b", "//x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if webhook.CheckURL(text) != nil {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, text, http.NoBody)
		if err != nil || r.URL.Host == "" || r.URL.User != nil {
			t.Errorf("%q passes: %v", text, err)
		}
	})
}

// With a template a request has what it says, of one message or of several.
func TestTemplate(t *testing.T) {
	const template = `{{if eq .Count 1}}{"n":{{json .Type}}}{{else}}{"n":[{{range $i, $e := .List}}{{if $i}},{{end}}{{json $e.Message}}{{end}}]}{{end}}`
	bodies := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- r.Header.Get("Content-Type") + " " + string(body)
	}))
	defer server.Close()
	client := webhook.New(sinktest.Guard(), "holter/test")
	defer client.Close()
	settings, err := json.Marshal(map[string]any{"template": template, "content_type": "application/vnd.x+json"})
	if err != nil {
		t.Fatal(err)
	}
	s := sinktest.New(t, client.Kind, server.URL, string(settings))
	for _, c := range []struct {
		messages []sink.Message
		want     string
	}{
		{[]sink.Message{sinktest.Message("1", `{"text":"a"}`)}, `application/vnd.x+json {"n":"job"}`},
		{[]sink.Message{sinktest.Message("1", `{"text":"a\"b"}`), sinktest.Message("2", `{"text":"c"}`)}, `application/vnd.x+json {"n":["a\"b","c"]}`},
	} {
		results := s.Deliver(t.Context(), c.messages)
		if got := <-bodies; got != c.want || strings.Trim(sinktest.Fates(results), "d") != "" {
			t.Errorf("%s, %s, want %s", got, sinktest.Fates(results), c.want)
		}
	}
	for settings, want := range map[string]string{
		`{"template":"{{.Nope}}"}`:                    "template:1:2",
		`{"content_type":"text/plain"}`:               "for a template, and there is none",
		`{"template":"x","content_type":"a\nb"}`:      "content_type",
		`{"template":"x","console":"holter.example"}`: "console is",
		`{"template":"{{range 9}}{{end}}"}`:           "range goes over .List only",
	} {
		if s, err := client.Kind(server.URL, json.RawMessage(settings)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", settings, s, err, want)
		}
	}
}
