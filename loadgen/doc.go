// Package loadgen plays a fleet of devices against a gateway or a broker, and checks the verdicts
// on them against ground truth.
//
// [Run] splits the fleet into workers, lets them connect, plays the phases of the plan, follows the
// gateway's verdicts, compares them with what was done to each device, and returns a report. A
// worker is a process of its own where one process may not open enough files; it runs [Work], which
// the caller of Run provides as a command. Without a command the whole fleet lives in one process.
//
// The parts are packages below: plan (what is to happen), scenario (plans as files), drive (the
// devices of one worker), score (the truth and the verdicts) and report (what is seen of it).
//
// # Workers
//
// A worker reads orders from its standard input and writes its figures to its standard output each
// second, both encoded by package encoding/gob. It ends when its input ends, so it never outlives
// the process that started it. If a worker dies, its devices' further behaviour is unknown; the run
// goes on with the others, and does not pass.
//
// # Concurrency
//
// Run blocks, and returns after every goroutine and process that it started has ended.
package loadgen
