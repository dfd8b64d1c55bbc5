package mqttconformance_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/mqttconformance"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
)

var (
	table  = flag.String("table", "", "write the results as a table in Markdown to this file")
	holter = flag.String("holter", "", "run the tests against the holter whose broker is at this address, too")
)

// TestSoakMosquitto tests the tests: what a broker does that many use is right, or a fault that is known. It also writes the
// table that compares it with holter, whose settings have to be those of testdata/holter.yaml:
//
//	HOLTER_TEST=soak go test ./internal/test/mqttconformance -run TestSoakMosquitto -holter 127.0.0.1:1883 -table /tmp/table.md
func TestSoakMosquitto(t *testing.T) {
	testenv.Soak(t)
	server := testmqtt.Mosquitto(t, testmqtt.Options{Lines: []string{"max_keepalive 10", "max_packet_size 200000"}})
	if !strings.Contains(server.Log(), "mosquitto version "+mosquittoVersion+" ") {
		t.Skip("another version of mosquitto than " + mosquittoVersion + ", whose faults are known")
	}
	brokers := []string{"mosquitto"}
	results := [][]mqttconformance.Result{
		mqttconformance.Run(t, server.Addr(), mqttconformance.Options{KeepAlive: 10 * time.Second, Failing: mosquittoFails()}),
	}
	if *holter != "" {
		brokers = append(brokers, "holter")
		t.Run("holter", func(t *testing.T) {
			results = append(results, mqttconformance.Run(t, *holter, mqttconformance.Options{Prefix: "conform", Refused: "refused", KeepAlive: 2 * time.Second}))
		})
	}
	if *table == "" {
		return
	}
	if err := os.WriteFile(*table, []byte(mqttconformance.Table(brokers, results...)), 0o600); err != nil {
		t.Fatal(err)
	}
}
