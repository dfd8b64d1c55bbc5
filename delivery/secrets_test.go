package delivery_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holter-iot/holter/delivery"
)

// Whatever the settings are, no secret is shown, and what is shown is JSON if they were.
func FuzzHideSecrets(f *testing.F) {
	for _, text := range []string{`{"secret":"s3cr3t","headers":{"A":"s3cr3t"}}`, `{"secret":7}`, `{"SECRET":"s3cr3t","Headers":{"a":"s3cr3t"}}`, `[]`, `{"headers":[]}`, ``, `{"password":"s3cr3t","topic":"a"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := delivery.HideSecrets(json.RawMessage(text))
		if json.Valid([]byte(text)) && !json.Valid(shown) {
			t.Errorf("%q became %q", text, shown)
		}
		var s struct{ Secret, Password string }
		if json.Unmarshal(shown, &s) == nil {
			for _, secret := range []string{s.Secret, s.Password} {
				if secret != "" && secret != delivery.Hidden && strings.Contains(text, secret) {
					t.Errorf("%q shows %q", text, secret)
				}
			}
		}
	})
}
