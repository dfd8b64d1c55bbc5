package chaos

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
)

// HAProxy is configured as the documentation says.
func TestBalancerRules(t *testing.T) {
	page, err := os.ReadFile("../../docs/run/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(balancerRules) {
		if !strings.Contains(string(page), "\n"+strings.TrimSuffix(line, "\n")) {
			t.Errorf("docs/run/cluster.md does not have %q", line)
		}
	}
}

// A greeting was welcomed where the balancer led the latest connection before.
func TestRoutes(t *testing.T) {
	const log = "[NOTICE] haproxy is ready\n127.10.0.1 b 100.500\n127.10.0.2 a 100.600\n127.10.0.1 a 103.250\n" +
		"127.10.0.1 <NOSRV> 104.000\n127.10.0.1 a x.y\n127.10.0.1 b 105.000\n127.10.0.9 c 105.000\n"
	r := routes{}
	r.read([]byte(log), []string{"a", "b"})
	at := func(seconds float64) int64 { return time.Unix(0, int64(seconds*1e9)).UnixNano() }
	one := netip.MustParseAddr("127.10.0.1")
	j := &drive.Journal{Signs: []drive.Sign{{Granted: at(100.501)}, {At: at(101)}, {Granted: at(103.2504)}, {Granted: at(104.999)}, {Granted: at(105)}}}
	got, err := r.targets(one, j)
	if want := []uint8{1, 0, 0, 1}; err != nil || !slices.Equal(got, want) {
		t.Errorf("targets = %v, %v, want %v", got, err, want)
	}
	j.Signs[0].Granted = at(100.4)
	if _, err := r.targets(one, j); err == nil {
		t.Error("a welcome before the first connection is taken")
	}
	if len(r) != 2 {
		t.Errorf("%d addresses, want 2", len(r))
	}
}

func TestOwnAddresses(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for fleet := range 3 {
		for _, a := range ownAddresses(fleet, 10_000) {
			seen[a] = true
		}
	}
	if len(seen) != 30_000 {
		t.Errorf("%d addresses of 30000 devices", len(seen))
	}
}
