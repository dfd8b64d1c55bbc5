package httpapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// A timeout that never passes is null in JSON, and is read as such.
func TestTimeout(t *testing.T) {
	never := httpapi.Timeout(liveness.Never / time.Millisecond)
	for want, timeout := range map[string]httpapi.Timeout{"90000": 90_000, "0.5": 0.5, "null": never} {
		text, err := json.Marshal(timeout)
		if err != nil || string(text) != want {
			t.Errorf("Marshal(%v) = %s, %v, want %s", timeout, text, err, want)
		}
		var again httpapi.Timeout
		if err := json.Unmarshal(text, &again); err != nil || again != timeout || again.Never() != (want == "null") {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", text, again, err, timeout)
		}
	}
}
