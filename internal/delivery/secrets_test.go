package delivery_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
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

// Secrets stay where they are: who changes an endpoint does not get them sent to another place, and what is hidden is never stored as it is shown.
func TestKeepSecrets(t *testing.T) {
	const (
		target   = "https://example.org/a"
		settings = `{"secret":"` + secret + `","headers":{"X-Key":"k","X-Other":"o"}}`
		shown    = `{"secret":"(hidden)","headers":{"X-Key":"(hidden)","X-Other":"(hidden)"}}`
	)
	r := newRig(t, delivery.Config{})
	for i, c := range []struct {
		name, old, kind, target, settings string // old settings, and what is put then
		want                              string // in the settings
		why                               string // or in the error
	}{
		{name: "all stays", kind: "webhook", target: target, want: settings},
		{name: "as shown", kind: "webhook", target: target, settings: shown, want: settings},
		{name: "another path", kind: "webhook", target: "HTTPS://Example.org?b", settings: shown, want: settings},
		{name: "other case", kind: "webhook", target: target, settings: `{"SECRET":"(hidden)","headers":{"x-key":"(hidden)"}}`, want: `{"SECRET":"` + secret + `","headers":{"x-key":"k"}}`},
		{name: "some are new", kind: "webhook", target: target, settings: `{"secret":"` + previous + `","headers":{"X-Key":"(hidden)"}}`, want: `{"secret":"` + previous + `","headers":{"X-Key":"k"}}`},
		{name: "elsewhere, all new", kind: "webhook", target: "https://example.net", settings: `{"secret":"` + previous + `"}`, want: `{"secret":"` + previous + `"}`},
		{name: "elsewhere, without", kind: "webhook", target: "https://example.net", settings: `{}`, want: `{}`},
		{name: "elsewhere, without any", old: `{"batch":7}`, kind: "webhook", target: "https://example.net", want: `{"batch":7}`},
		{name: "another host", kind: "webhook", target: "https://example.net/a", why: `header "X-Key", header "X-Other", secret`},
		{name: "another host, as shown", kind: "webhook", target: "https://example.net/a", settings: shown, why: `header "X-Key", header "X-Other", secret`},
		{name: "another host, one as shown", kind: "webhook", target: "https://example.net/a", settings: `{"secret":"` + previous + `","headers":{"X-Key":"(hidden)"}}`, why: `them: header "X-Key"`},
		{name: "another port", kind: "webhook", target: "https://example.org:444/a", why: "secret"},
		{name: "another scheme", kind: "webhook", target: "http://example.org/a", why: "secret"},
		{name: "a host that looks the same", kind: "webhook", target: "https://example.org.example.net/a", why: "secret"},
		{name: "another kind", kind: "mqtt", target: target, why: "secret"},
		{name: "a header that was not there", kind: "webhook", target: target, settings: `{"headers":{"X-New":"(hidden)","X-Key":"(hidden)"}}`, why: `out: header "X-New"`},
		{name: "new", old: "none", kind: "webhook", target: target, settings: shown, why: `out: header "X-Key", header "X-Other", secret`},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := fmt.Sprint("e-", i)
			if c.old != "none" {
				r.endpoint(name, "webhook", target, cmp.Or(c.old, settings))
			}
			p := jobs.Endpoint{Name: name, Kind: c.kind, Target: c.target}
			if c.settings != "" {
				p.Settings = json.RawMessage(c.settings)
			}
			err := r.engine.PutEndpoint(t.Context(), p)
			if c.why != "" {
				if !isErr(err, jobs.ErrBad) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%v, want ErrBad with %q", err, c.why)
				}
				return
			}
			r.check(err)
			got, err := r.engine.Endpoint(name)
			r.check(err)
			var is, want any
			r.check(errors.Join(json.Unmarshal(got.Settings, &is), json.Unmarshal([]byte(c.want), &want)))
			if !reflect.DeepEqual(is, want) {
				t.Errorf("settings %s, want %s", got.Settings, c.want)
			}
		})
	}
}

// To change an endpoint does not enable it.
func TestPutDisabled(t *testing.T) {
	r := newRig(t, delivery.Config{})
	r.endpoint("e", "webhook", "https://example.org/a", "")
	r.check(r.engine.EnableEndpoint(t.Context(), "e", false, "410 Gone"))
	for _, target := range []string{"https://example.org/a", "https://example.net/b"} {
		r.check(r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "e", Kind: "webhook", Target: target}))
		if p, err := r.engine.Endpoint("e"); err != nil || !p.Disabled || p.Note != "410 Gone" || p.Target != target {
			t.Errorf("%+v, %v, want it disabled as before", p, err)
		}
	}
}
