package sink_test

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name, list string
		want       []string // nil: a mistake
	}{
		{"name", "nats", []string{"nats:4222"}},
		{"port", "nats:1", []string{"nats:1"}},
		{"several", "a.example,10.0.0.1:7,[::1],[fe80::1]:9", []string{"a.example:4222", "10.0.0.1:7", "[::1]:4222", "[fe80::1]:9"}},
		{"nothing", "", nil},
		{"a zone with a bracket", "[::1%l[::o]:1", nil},
		{"nothing between commas", "a,,b", nil},
		{"IPv6 without brackets", "::1", nil},
		{"brackets around a name", "[a]:1", nil},
		{"open bracket", "[::1", nil},
		{"IPv4 in brackets", "[127.0.0.1]", nil},
		{"no port after the colon", "a:", nil},
		{"port 0", "a:0", nil},
		{"port too large", "a:65536", nil},
		{"port with a sign", "a:+1", nil},
		{"user", "u:p@a:1", nil},
		{"path", "a/b", nil},
		{"space", "a b", nil},
		{"too many", strings.Repeat("a,", 32) + "a", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := sink.Addresses(c.list, 4222)
			if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
				t.Errorf("Addresses(%q) = %q, %v, want %q", c.list, got, err, c.want)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	if c, err := sink.TLS(""); err != nil || c.RootCAs != nil {
		t.Errorf("without certificates: %v, %v", c, err)
	}
	if _, err := sink.TLS("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"); err == nil {
		t.Error("what is no certificate is taken")
	}
}

// What is read can be connected to: a host and a port.
func FuzzAddresses(f *testing.F) {
	for _, list := range []string{"a", "a:1,b:2", "[::1]:1", "[::1%lo]:1", "[::1%l[::o]:1", "a:00001", ",", "a:b:c"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := sink.Addresses(list, 9092)
		if err != nil {
			return
		}
		for _, address := range got {
			host, port, err := net.SplitHostPort(address)
			if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
				t.Errorf("Addresses(%q) has %q: %v", list, address, err)
			}
		}
	})
}
