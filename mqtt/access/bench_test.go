package access_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/access"
)

// twenty returns 20 rules with a filter each, which apply to everybody; each NN is the number of
// the rule.
func twenty(filter string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 20 {
		text := strings.ReplaceAll(filter, "NN", strconv.Itoa(i))
		fmt.Fprintf(&b, "  - {everyone: true, publish: ['%s'], subscribe: ['%[1]s']}\n", text)
	}
	return b.String()
}

// BenchmarkRules asks what the last of 20 rules allows.
func BenchmarkRules(b *testing.B) {
	for _, bb := range []struct{ name, filter, topic string }{
		{"filters=different", "siteNN/+/state", "site19/device-1234/state"},
		{"filters=alike", "site/NN/%c/#", "site/19/device-1234/state"},
		{"filters=names", "site/%c/NN/+", "site/device-1234/19/state"},
		{"filters=wild", "+/+/NN", "site/device-1234/19"},
	} {
		g, err := access.ParseRules(twenty(bb.filter), "u", "device-1234")
		if err != nil {
			b.Fatal(err)
		}
		b.Run("publish/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !g.MayPublish(bb.topic) {
					b.Fatal("not allowed")
				}
			}
		})
		b.Run("subscribe/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !g.MaySubscribe(bb.topic) {
					b.Fatal("not allowed")
				}
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	path := b.TempDir() + "/users"
	writeUsers(b, path, "fleet", "secret")
	a := start(b, access.Config{Users: path, Anonymous: access.Anyone})
	for _, l := range []access.Login{{ClientID: "device-1"}, {ClientID: "device-1", User: "fleet", Password: []byte("secret")}, {ClientID: "device-1", Certificate: "device-1"}} {
		g, err := a.Login(b.Context(), l)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("user=%s/certificate=%s", l.User, l.Certificate), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = a.Decide(l)
			}
		})
		b.Run(fmt.Sprintf("valid/user=%s/certificate=%s", l.User, l.Certificate), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Valid()
			}
		})
	}
}

// BenchmarkHash checks a password with a hash of HashPassword.
func BenchmarkHash(b *testing.B) {
	hash, err := access.HashPassword("secret")
	if err != nil {
		b.Fatal(err)
	}
	path := b.TempDir() + "/users"
	write(b, path, "ann:"+hash)
	a := start(b, access.Config{Users: path})
	for b.Loop() {
		_, _ = a.Login(b.Context(), access.Login{User: "ann", Password: []byte("wrong")})
	}
}
