package run

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// TestMain runs the tests of a benchmark and returns the exit status. The test program is also the program of the processes that the
// benchmark starts.
func TestMain(m *testing.M, c Command) int {
	if len(os.Args) > 1 && os.Args[1] == measured.Subcommand {
		if err := Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return m.Run()
}
