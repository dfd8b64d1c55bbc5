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

// TestServeFinishesWhatIsUnderWay stops while a request is worked at: it is answered as if nothing were, if that does not take too long.
func TestServeFinishesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		f.open("dev")
		s := serve(t, f.api(httpapi.Config{Sender: &post{wait: 3 * time.Second}}))
		answered := make(chan int, 1)
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://holter/v1/devices/dev/send", strings.NewReader(`{"text":"hi"}`))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			answer, err := s.client.Do(request)
			if err != nil {
				t.Error(err)
				close(answered)
				return
			}
			answer.Body.Close()
			answered <- answer.StatusCode
		}()
		time.Sleep(time.Second)
		if err := s.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if status := <-answered; status != http.StatusOK {
			t.Errorf("what was under way when it stopped is answered with %d", status)
		}
	})
}
