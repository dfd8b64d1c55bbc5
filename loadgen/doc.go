// Package loadgen plays a fleet of devices against a gateway or a broker, and checks the verdicts
// on them against ground truth.
//
// # A first run
//
//   - A [Plan] says what the fleet does: [Scenario] has ready ones, and [ParseScenario] reads a text.
//     Set where the devices connect (Plan.Targets) and how many there are (Plan.Devices).
//   - A [Follower] reads the verdicts: [Follow] those of a server or a broker at a URL, [FollowLog]
//     those of a registry in this process. Without a follower, [Run] makes load and checks no verdict.
//   - Run blocks until the plan has ended. Its error says why the run did not pass, a sentence for
//     each kind of mistake; the [Report] has the figures. See the example.
//
// The program `holter loadgen` is made of this; docs/reference/loadgen.md says what is checked.
//
// # Scenarios
//
// A scenario is YAML. Only phases are needed; an act happens to a share, a count or a number of
// groups of the devices, or to all:
//
//	interval: 30s           # between two heartbeats of a device
//	timeout: 90s            # is announced; the server judges after so much silence
//	phases:
//	  - name: before
//	    length: 1m
//	  - name: trouble
//	    length: 5m
//	    acts:
//	      - {kind: silent, share: 10%, within: 1m}        # the connection stays, nothing is sent
//	      - {kind: crash, groups: 2, after: 2m, back: 1m} # as if the power went; is back after 1 min
//	      - {kind: reconnect, all: true, after: 4m}       # closes, and comes back
//
// Other kinds are bye, close, reset, stall, duplicate, sleep, move and signal. Mistakes are reported
// with line, column and what is allowed. internal/loadgen/scenario/testdata/full.yaml has every word.
//
// # Workers
//
// Run splits the fleet into workers. Without Config.Command they all live in this process and share
// its limit on open files. A fleet that needs more gets processes of their own: the command starts a
// program that calls [Work]. A worker reads orders from its standard input and writes its figures to
// its standard output each second, both encoded by package encoding/gob. It ends when its input ends,
// so it never outlives the process that started it. If a worker dies, its devices' further behaviour
// is unknown; the run goes on with the others, and does not pass.
//
// # Concurrency
//
// Run blocks, and returns after every goroutine and process that it started has ended.
package loadgen
