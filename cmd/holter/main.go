// Command holter watches the heartbeats of a fleet of devices and reports for each of them whether
// it is alive.
package main

import (
	"os"
	_ "time/tzdata" // schedules name time zones, also on machines without zoneinfo

	"github.com/holter-iot/holter/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr, os.Exit)) }
