package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/guard"
)

func TestDeviceToken(t *testing.T) {
	ask := func(t *testing.T, args ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, errs strings.Builder
		code = run(t.Context(), append([]string{"devices", "token"}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	// admits reports whether a file with a line lets the device in with a token.
	admits := func(t *testing.T, line, token string) bool {
		t.Helper()
		f, err := guard.New(tempFile(t, line), guard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return f.Admit("pump-3", []byte(token)) && !f.Admit("pump-3", nil)
	}
	for _, args := range [][]string{{"pump-3"}, {"pump-3", "--hmac"}} {
		code, line, said := ask(t, args...)
		_, rest, _ := strings.Cut(said, ":\n\n    ")
		token, _, _ := strings.Cut(rest, "\n")
		if code != 0 || len(token) != 64 || strings.Count(line, "\n") != 1 || !admits(t, line, token) {
			t.Errorf("%q = %d, line %q, said %q", args, code, line, said)
		}
		if strings.Contains(line, token) != (len(args) == 2) {
			t.Errorf("%q: the line is %q", args, line)
		}
	}
	code, text, said := ask(t, "pump-3", "--json")
	var made struct{ ID, Token, Line string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || code != 0 || said != "" || made.ID != "pump-3" || !admits(t, made.Line, made.Token) {
		t.Errorf("as JSON: %d, %q, %q, %v", code, text, said, err)
	}
	for _, id := range []string{"", "a b", "#a", strings.Repeat("x", 129)} {
		if code, text, said := ask(t, id); code != exitUsage || text != "" || !strings.Contains(said, "the id ") {
			t.Errorf("id %q: %d, %q, %q", id, code, text, said)
		}
	}
}
