package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
)

// A test says what came of it, in its answer; who may only read may not send.
func TestTestEndpoint(t *testing.T) {
	h, _ := delivering(t, httpapi.Config{Auth: newSecrets()})
	admin := bearing("a")
	if w := send(h, "PUT", "/v1/endpoints/ops", `{"kind":"webhook","target":"http://nowhere.invalid/x"}`, admin...); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := send(h, "POST", "/v1/endpoints/ops/test", "", bearing("x")...); w.Code != http.StatusForbidden {
		t.Errorf("for a reader: %d %s", w.Code, w.Body)
	}
	w := send(h, "POST", "/v1/endpoints/ops/test", "", admin...)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `"delivered":false`) || !strings.Contains(body, "nowhere.invalid") || !strings.Contains(body, `"took_ms":`) {
		t.Errorf("%d %s", w.Code, body)
	}
	if w := send(h, "POST", "/v1/endpoints/none/test", "", admin...); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(h, "PUT", "/v1/endpoints/ops", `{"kind":"webhook","target":"http://10.1.2.3/x"}`, admin...); w.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(w.Body.String(), "10.0.0.0/8") || !strings.Contains(w.Body.String(), "HOLTER_DELIVERY_ALLOW_PRIVATE") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
