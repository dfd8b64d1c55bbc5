package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holter-iot/holter/internal/apiclient"
)

const offline = `{"id":"a/b:7","type":"io.holter.device.offline","subject":"a/b","time":"2026-01-02T03:04:05.5Z","data":{"offset":9,"seq":7,` +
	`"epoch":3,"reason":"silence","last_seen":"2026-01-02T03:03:00Z","deadline":"2026-01-02T03:04:00Z","decided_at":"2026-01-02T03:04:05Z",` +
	`"heard_silence_ms":60000.5,"timeout_ms":60000}}`

// The log is read page by page, and what is no page is an error.
func TestWholeLog(t *testing.T) {
	pages := map[string]string{
		"0": `{"events":[` + offline + `],"next":9}`, "9": `{"events":[` + offline + `,` + offline + `],"next":11}`, "11": `{"events":[],"next":11}`,
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, pages[r.FormValue("after")])
	}))
	defer web.Close()
	client := apiclient.New(web.URL, "", nil)
	defer client.Close()
	events, err := wholeLog(t.Context(), client)
	if err != nil || len(events) != 3 {
		t.Errorf("%d events, %v; want 3", len(events), err)
	}
	for name, page := range map[string]string{
		"no JSON": "x", "the next is not further": `{"events":[` + offline + `],"next":0}`, "an event is none": `{"events":[7],"next":5}`,
	} {
		pages["0"] = page
		if _, err := wholeLog(t.Context(), client); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for status := range map[int]bool{http.StatusNotFound: true, http.StatusInternalServerError: true} {
		broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		client := apiclient.New(broken.URL, "", nil)
		if _, _, err := pageAfter(t.Context(), client, 0); err == nil {
			t.Errorf("status %d: no error", status)
		}
		client.Close()
		broken.Close()
	}
}
