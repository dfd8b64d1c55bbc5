package cli

import "testing"

// Each command can be executed: kong does not see whether it has a method Run.
func TestEveryCommandRuns(t *testing.T) {
	parser, err := newParser(&commandLine{})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		switch c := leaf.Target.Addr().Interface().(type) {
		case simple, flagged, client, flaggedClient, *helpCommand: // run replaces help by --help
		default:
			t.Errorf("%s: %T has no method Run that execute knows", leaf.Path(), c)
		}
	}
}
