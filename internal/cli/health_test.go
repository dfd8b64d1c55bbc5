package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		code   int
	}{{"alive", http.StatusOK, 0}, {"not alive", http.StatusInternalServerError, exitFailed}} {
		t.Run(c.name, func(t *testing.T) {
			asked := ""
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte("ok\n"))
			}))
			defer s.Close()
			got := typeLine(t.Context(), t, "health", "--api="+s.URL)
			if got.code != c.code || asked != "/healthz" || (c.code == 0) != (got.stdout == "ok\n") {
				t.Errorf("health = %+v, which asked for %q", got, asked)
			}
		})
	}
	if got := typeLine(t.Context(), t, "health", "--api=http://127.0.0.1:1"); got.code != exitFailed || !strings.Contains(got.stderr, "127.0.0.1:1") {
		t.Errorf("health of nobody = %+v", got)
	}
}

// A token for the API may be a credential, and one that is not to be had is a mistake of the user.
func TestTokenCredential(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	if got := typeLine(t.Context(), t, "health", "--token=credential:missing"); got.code != exitUsage || !strings.Contains(got.stderr, "--token: a credential of CREDENTIALS_DIRECTORY") {
		t.Errorf("health with a missing credential = %+v", got)
	}
}
