//go:build linux

// Package measured runs what a benchmark measures in a process of its own, and
// reads what it uses: CPU time, memory, profiles. The process is the benchmark
// itself, called again with the word Subcommand. It takes commands on its
// standard input, a line each, and answers each on its standard output with a
// line of JSON; it ends with its input.
//
// Start and Process are the side that measures, Subject is the other one.
package measured
