package mqttconformance

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Options describe the broker. The zero value is for one of which nothing is known.
type Options struct {
	// Prefix begins all client identifiers and topics, "$" and "$share/" apart. It has letters and digits only, 8 at
	// the most. Default: a new one for each run.
	Prefix string
	// Refused is a topic filter of which the broker refuses all subscriptions. Default: the tests of this are skipped.
	Refused string
	// KeepAlive is the longest keep alive that the broker allows, in whole seconds, 30 s at the most. It is enough if it
	// allows clients whose identifiers end with "limited" no longer one. Default: the tests of this are skipped.
	KeepAlive time.Duration
	// Failing are reasons, by the name of a test, why the broker does not pass it. Such a test is run; it is skipped if
	// it fails, and fails if it passes.
	Failing map[string]string
}

// Outcome is what became of a test.
type Outcome string

// The outcomes of a test.
const (
	NotRun  Outcome = "not run" // the flag -run left it out
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // the broker cannot be asked, or the options do not say enough
)

// Result is the result of a test.
type Result struct {
	// Name is the group and the name of the test: "v5/test_basic".
	Name    string
	Outcome Outcome
	// Detail says why the test failed or was skipped.
	Detail string
}

// group is a number of tests.
type group struct {
	name  string
	tests []entry
}

// entry is a test of a group.
type entry struct {
	name string
	run  func(*test)
}

func groups() []group {
	return []group{
		{"v3.1.1", eclipse3()},
		{"v5", eclipse5()},
		{"Malformed", malformed()},
		{"Presence", presence()},
		{"Flow", flow()},
	}
}

// Run runs all tests against the broker at an address, HOST:PORT, which speaks MQTT over TCP and lets clients in
// without a password. Each test is a parallel subtest with its own clients and topics; what it leaves at the broker are
// sessions that expire within 10 minutes, those of MQTT 3.1.1, which do not, and retained messages. Run returns the
// results, in the same order for every broker, when all tests have ended.
func Run(t *testing.T, addr string, o Options) []Result {
	t.Helper()
	o.Prefix = cmp.Or(o.Prefix, "c"+strings.ToLower(rand.Text()[:5]))
	var results []Result
	for _, g := range groups() {
		for _, e := range g.tests {
			results = append(results, Result{Name: g.name + "/" + e.name, Outcome: NotRun})
		}
	}
	for name := range o.Failing {
		if !slices.ContainsFunc(results, func(r Result) bool { return r.Name == name }) {
			t.Errorf("no test has the name %q", name)
		}
	}
	n := 0
	for _, g := range groups() {
		first := n
		n += len(g.tests)
		t.Run(g.name, func(t *testing.T) {
			for i, e := range g.tests {
				x := &test{addr: addr, options: o, result: &results[first+i], prefix: o.Prefix + "n" + strconv.Itoa(first+i)}
				t.Run(e.name, func(t *testing.T) {
					t.Parallel()
					judge(t, x, e.run)
				})
			}
		})
	}
	return results
}

// Table returns a table in Markdown: a line for each test, a column for each broker. All brokers have the same tests.
func Table(brokers []string, results ...[]Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| test | %s |\n|---|%s\n", strings.Join(brokers, " | "), strings.Repeat("---|", len(brokers)))
	for i, r := range results[0] {
		fmt.Fprintf(&b, "| %s |", r.Name)
		for _, list := range results {
			fmt.Fprintf(&b, " %s |", list[i].Outcome)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
