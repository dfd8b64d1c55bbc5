package httpapi_test

import (
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// A heartbeat with a token verifies a device, one where no token is needed does not.
func TestUnverified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := newSecrets()
		h := f.beating(httpapi.Config{Auth: s}).Handler()
		f.pulse()
		beats := []struct{ id, path, body string }{
			{"beat", "/v1/beat/beat", ""}, {"fail", "/v1/beat/fail/fail", "broken"}, {"sleep", "/v1/beat/sleep/sleep?for=1h", ""}, {"batch", "/v1/beats", `["batch"]`},
		}
		for i, tokens := range []bool{false, true, false} {
			s.set(func() { s.none = !tokens })
			for _, b := range beats {
				if w := send(h, "POST", b.path, b.body, bearing("b")...); w.Code > 299 {
					t.Errorf("%s: %d %s", b.path, w.Code, w.Body)
				}
				if v, err := f.registry.Device(b.id); err != nil || v.Unverified != (i == 0) {
					t.Errorf("%s, the %dth time: unverified %v, %v", b.path, i+1, v.Unverified, err)
				}
			}
		}
	})
}
