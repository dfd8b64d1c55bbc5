//go:build linux

// Package measured runs what a benchmark measures in a process of its own, and reads what it uses: CPU time, memory, profiles. The
// process is the benchmark's program again, called with the word Subcommand. It takes commands on its standard input, one a line,
// answers each with a line of JSON on its standard output, and ends with its input.
//
// Start and Process are the side of the benchmark, Subject is the other one.
package measured
