package archtest_test

import (
	"go/build"
	"path/filepath"
	"slices"
	"testing"
)

// TestLibraries holds what carries the product: the gateway's connections are watched by gnet's poller,
// expiry is told on the workers of ants, and the bridge is a client of paho.
func TestLibraries(t *testing.T) {
	for folder, library := range map[string]string{
		"internal/net/eventloop": "github.com/panjf2000/gnet/v2/pkg/netpoll",
		"timer":                  "github.com/panjf2000/ants/v2",
		"mqttbridge":             "github.com/eclipse/paho.mqtt.golang",
		"gateway":                module + "/internal/net/eventloop",
	} {
		p, err := build.ImportDir(filepath.Join(moduleRoot(t), folder), 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.Imports, library) {
			t.Errorf("%s does not import %s; it imports %q", folder, library, p.Imports)
		}
	}
}
