// Package loadgen plays a whole fleet of devices against a gateway or a broker, and knows at the end where its verdicts were wrong.
//
// [Run] splits the fleet into workers, each a process of its own where one process may not open enough files; lets them connect, plays the
// phases of the plan, follows the verdicts that the gateway gives, compares them with what was done to each device, and writes what a
// person and a program want to know of it. What a worker does is [Work]; whoever calls Run gives it a command that calls Work, or is content
// with a fleet in one process.
//
// The parts are packages below: plan (what is to happen), scenario (plans as files), drive (the devices of one worker), score (the truth
// and the verdicts) and report (what is seen of it).
//
// # Workers
//
// A worker reads orders from its standard input and tells each second how it goes on its standard output, both in the encoding of package
// encoding/gob. It ends when its input ends, so none outlives the process that started it. A worker that dies is reported; what its
// devices did from then on is unknown, and the run goes on with the others, but does not pass.
//
// # Concurrency
//
// Run blocks, and returns after every goroutine and process that it started has ended.
package loadgen
