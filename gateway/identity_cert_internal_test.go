package gateway

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testcert"
)

func TestIdentity(t *testing.T) {
	ca := testcert.New(t)
	all := testcert.Ask{Name: "name", DNS: []string{"dns.example"}, URI: []string{"urn:dev:1"}}
	for _, tt := range []struct {
		name     string
		identity Identity
		ask      testcert.Ask
		want     string // the id, or the end of the error
	}{
		{"any: common name", AnyName, all, "name"},
		{"any: DNS name", AnyName, testcert.Ask{DNS: all.DNS, URI: all.URI}, "dns.example"},
		{"any: URI", AnyName, testcert.Ask{URI: all.URI}, "urn:dev:1"},
		{"any: none", AnyName, testcert.Ask{}, "no URI"},
		{"any: two common names", AnyName, testcert.Ask{Name: "a", Names: []string{"b"}}, "must have one"},
		{"any: the first DNS name", AnyName, testcert.Ask{DNS: []string{"a", "b"}}, "a"},
		{"cn", CommonName, all, "name"},
		{"cn: the same twice", CommonName, testcert.Ask{Name: "a", Names: []string{"a"}}, "must have one"},
		{"cn: none", CommonName, testcert.Ask{DNS: all.DNS}, "it has no common name"},
		{"san_dns", DNSName, all, "dns.example"},
		{"san_dns: none", DNSName, testcert.Ask{Name: "a"}, "it has no DNS name"},
		{"san_uri", URI, all, "urn:dev:1"},
		{"san_uri: none", URI, testcert.Ask{Name: "a"}, "it has no URI"},
		{"fingerprint", Fingerprint, testcert.Ask{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaf := ca.Issue(t, tt.ask).Leaf
			got, err := tt.identity.of(leaf)
			if err != nil {
				got = err.Error()
			}
			if tt.identity == Fingerprint {
				if len(got) != 64 || strings.Trim(got, "0123456789abcdef") != "" {
					t.Errorf("%q", got)
				}
				return
			}
			if !strings.HasSuffix(got, tt.want) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
