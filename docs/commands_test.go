package docs_test

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/cli"
)

// TestCommands wants each command of holter that a page names to be there, with the flags that stand behind it.
func TestCommands(t *testing.T) {
	commands := helpTexts(t)
	inRunbook := 0
	for _, page := range pages(t, "..") {
		for _, c := range namedCommands(readPage(t, page)) {
			if strings.HasSuffix(page, "run/runbook.md") {
				inRunbook++
			}
			help := cmp.Or(commands[c.words[0]+" "+c.words[1]], commands[c.words[0]])
			if help == "" {
				t.Errorf("%s: there is no command holter %s", page, strings.Join(c.words[:], " "))
				continue
			}
			for _, flag := range c.flags {
				if !strings.Contains(help, flag) {
					t.Errorf("%s: holter %s has no flag %s", page, strings.Join(c.words[:], " "), flag)
				}
			}
		}
	}
	if inRunbook < 20 {
		t.Errorf("%d commands were found in the runbook", inRunbook)
	}
}

// A namedCommand is a command that a page names: its first two words, and its flags.
type namedCommand struct {
	words [2]string
	flags []string
}

// namedCommands returns the commands in the code of a page, in blocks and in lines.
func namedCommands(text string) []namedCommand {
	// A flag may stand on the next line, if a backslash ends this one; what follows "--" is another program's.
	text = strings.ReplaceAll(text, "\\\n", " ")
	var code strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```(?:sh|console)?\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		code.WriteString(block[1])
	}
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	for _, span := range regexp.MustCompile("`(holter [^`\n]*)`").FindAllStringSubmatch(text, -1) {
		code.WriteString(span[1] + "\n")
	}
	var found []namedCommand
	command := regexp.MustCompile(`(?m)(?:^|[;&|] |\$ |\()holter ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?([^\n#;|]*)`)
	for _, m := range command.FindAllStringSubmatch(code.String(), -1) {
		options, _, _ := strings.Cut(m[3]+" ", " -- ")
		found = append(found, namedCommand{[2]string{m[1], m[2]}, regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(options, -1)})
	}
	return found
}

func TestNamedCommands(t *testing.T) {
	found := namedCommands("`holter serve --http X`\n```sh\n$ A=1; holter run --device a \\\n  --expect b -- sh --login\n# holter no\n```\n```yaml\nholter: no\n```\n")
	var got []string
	for _, c := range found {
		got = append(got, strings.Join(append(c.words[:], c.flags...), " "))
	}
	if want := "run  --device --expect, serve  --http"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// helpTexts returns the help of each command by its words. What stands for several, such as devices, has the help of all of them.
func helpTexts(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("COLUMNS", "100")
	texts := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*(?: [a-z][a-z-]*)*)  +\S`).FindAllStringSubmatch(help(t), -1) {
		text := help(t, strings.Fields(m[1])...)
		if m[1] != "help" && !strings.HasPrefix(text, "Usage: holter "+m[1]) {
			t.Errorf("holter %s --help begins with %.60q", m[1], text)
		}
		texts[m[1]] = text
		if group, _, ok := strings.Cut(m[1], " "); ok {
			texts[group] += text
		}
	}
	return texts
}

func help(t *testing.T, command ...string) string {
	t.Helper()
	var out strings.Builder
	if code := cli.Main(append(command, "--help"), &out, &out, os.Exit); code != 0 {
		t.Fatalf("holter %s --help = %d\n%s", strings.Join(command, " "), code, out.String())
	}
	return out.String()
}
