package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// What other systems say of the commands that they do not have.
func TestLinuxOnly(t *testing.T) {
	var tree struct {
		Serve  linuxOnly `cmd:"" help:"Serve."`
		Config struct {
			Check linuxOnly      `cmd:"" help:"Check."`
			Show  versionCommand `cmd:"" help:"Show."`
		} `cmd:"" help:"Settings."`
	}
	var stdout strings.Builder
	parser, err := kong.New(&tree, kong.Writers(&stdout, &stdout))
	if err != nil {
		t.Fatal(err)
	}
	hideAbsent(parser.Model.Node)
	for typed, want := range map[string]string{
		"serve":                           "holter: serve runs on Linux only; ",
		"serve --listen 127.0.0.1:0 -x a": "holter: serve runs on Linux only; ",
		"serve --help":                    "holter: serve runs on Linux only; ",
		"config check fleet.yaml":         "holter: config check runs on Linux only; ",
	} {
		line, err := parse(parser, strings.Fields(typed))
		if err != nil || line == nil {
			t.Fatalf("%s: %v, %v", typed, line, err)
		}
		var stderr strings.Builder
		if code := conclude(t.Context(), execute(t.Context(), line, output{&stdout, &stderr}), &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s: %d and %q, want %q", typed, code, stderr.String(), want)
		}
	}
	if _, err := parse(parser, []string{"--help"}); err != nil || strings.Contains(stdout.String(), "serve") || !strings.Contains(stdout.String(), "config show") {
		t.Errorf("the help: %v\n%s", err, stdout.String())
	}
	if words := nextWords(parser.Model.Node, []string{"config"}); strings.Join(words, " ") != "show --help" {
		t.Errorf("completions of config: %q", words)
	}
}
