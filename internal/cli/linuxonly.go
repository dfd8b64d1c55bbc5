package cli

import (
	"context"
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// linuxOnly takes the place of a command that there is on Linux only. It accepts whatever is typed.
type linuxOnly struct {
	Words []string `arg:"" optional:"" help:"The rest of the line."`
}

// Run says why the command does not run.
func (linuxOnly) Run(_ context.Context, line *kong.Context, _ output) error {
	return notHere(line.Selected().Path())
}

// notHere is the error of what works on Linux only.
func notHere(what string) error {
	return usageError{fmt.Errorf("%s runs on Linux only; the commands here ask a server elsewhere, see holter --help and --api", what)}
}

// hideAbsent takes the commands that are not here out of the help, the completions and the manual.
func hideAbsent(node *kong.Node) {
	for _, child := range node.Children {
		if child.Target.Type() == reflect.TypeFor[linuxOnly]() {
			child.Hidden, child.Passthrough = true, true
		}
		hideAbsent(child)
	}
}
