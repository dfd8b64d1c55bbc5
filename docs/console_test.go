package docs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cli"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
)

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr, os.Exit))
	}
	testenv.Together(16) // pages, which mainly sleep
	testprogram.Main(m)
}

// programEnv makes this test binary the program itself.
const programEnv = "HOLTER_TEST_PROGRAM"

// commandLimit is how long a command of a page may take.
const commandLimit = 2 * time.Minute

// TestConsole runs the console blocks of the README, of the pages for beginners and of the examples as a reader
// would: from top to bottom, in one shell for each page, with the program of this tree. Each page
// has a directory and ports of its own. What a block shows below a command must be what the command
// prints; see [sameOutput].
func TestConsole(t *testing.T) {
	testenv.Check(t)
	testenv.Program(t, "bash")
	program := testprogram.Holter(t)
	start, err := filepath.Glob("start/*.md")
	if err != nil || len(start) == 0 {
		t.Fatalf("pages for beginners: %v, %v", start, err)
	}
	examples, err := filepath.Glob("../examples/*/README.md")
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples with commands: %v, %v", examples, err)
	}
	for _, page := range slices.Concat(start, examples, []string{"../README.md"}) {
		t.Run(strings.TrimPrefix(page, "../"), func(t *testing.T) {
			t.Parallel()
			steps := consoleSteps(readPage(t, page))
			if len(steps) == 0 {
				t.Fatal("the page has no console block")
			}
			needTools(t, steps)
			sh := startShell(t, program)
			for _, s := range steps {
				if s.file != "" {
					sh.write(t, s)
				} else {
					sh.run(t, s)
				}
			}
		})
	}
}

// A step is one command of a page, and what the page shows of its output; or a file that the page
// shows whole.
type step struct{ command, output, file string }

// consoleSteps returns the commands in the console blocks of a page, and the files in its blocks of
// YAML that have a name. A command begins with "$ ", and goes on as long as its lines end with a
// backslash.
func consoleSteps(page string) []step {
	var steps []step
	for _, block := range regexp.MustCompile("(?ms)^```(console|yaml (\\S+))\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		if block[2] != "" {
			steps = append(steps, step{file: block[2], output: block[3]})
			continue
		}
		more := false
		for line := range strings.Lines(block[3]) {
			command, begins := strings.CutPrefix(line, "$ ")
			switch {
			case begins:
				steps = append(steps, step{command: command})
			case more:
				steps[len(steps)-1].command += line
			default:
				steps[len(steps)-1].output += line
			}
			more = (begins || more) && strings.HasSuffix(line, "\\\n")
		}
	}
	return steps
}

func TestConsoleSteps(t *testing.T) {
	got := consoleSteps("text\n```console\n$ a \\\n  b\n1\n2\n$ c\n```\n```sh\n$ no\n```\n```yaml f.yaml\na: 1\n```\n")
	want := []step{{command: "a \\\n  b\n", output: "1\n2\n"}, {command: "c\n"}, {file: "f.yaml", output: "a: 1\n"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// needTools ends the test of a page whose commands need a program that is not installed.
func needTools(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		for _, tool := range []string{"curl", "mosquitto", "mosquitto_pub", "nc", "xxd"} {
			if regexp.MustCompile(`(^|[;|] ?)` + tool + ` `).MatchString(s.command) {
				testenv.Program(t, tool)
			}
		}
	}
}

// A shell is a bash in a directory of its own, in which the ports of the pages stand for free ones.
type shell struct {
	dir   string
	in    io.Writer
	lines chan string
	ports map[string]string // of the pages → of this shell
}

func startShell(t *testing.T, program string) *shell {
	t.Helper()
	sh := &shell{lines: make(chan string, 10_000), ports: map[string]string{}}
	for _, port := range []string{"7700", "1883", "8080", "1884"} {
		sh.ports[port] = strings.TrimPrefix(testenv.FreeAddress(t), "127.0.0.1:")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--norc")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "HOME="+cmd.Dir,
		"HOLTER_LISTEN=127.0.0.1:"+sh.ports["7700"], "HOLTER_MQTT=127.0.0.1:"+sh.ports["1883"],
		"HOLTER_HTTP=127.0.0.1:"+sh.ports["8080"], "HOLTER_API=http://127.0.0.1:"+sh.ports["8080"])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sh.in, sh.dir = in, cmd.Dir
	go func() {
		defer close(sh.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			sh.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the servers that the page started, too
		for range sh.lines {                                // until all of them have closed it
		}
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(cmd.Dir, "holter.log"))
			t.Logf("holter.log:\n%s", log)
		}
	})
	// What a reader builds is here already.
	sh.run(t, step{command: `make() { :; }; go() { shift 2; holter "$@"; }` + "\n"})
	return sh
}

// write writes a file of the page.
func (sh *shell) write(t *testing.T, s step) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(sh.dir, s.file), []byte(sh.own(s.output)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// own returns the text with the ports of this shell in the place of those of the page.
func (sh *shell) own(text string) string {
	for page, own := range sh.ports {
		text = regexp.MustCompile(`\b`+page+`\b`).ReplaceAllString(text, own)
	}
	return text
}

// run runs the command and compares its output. A command that only looks is repeated as long as it
// shows something else: what the page shows may take longer on a busy machine.
func (sh *shell) run(t *testing.T, s step) {
	t.Helper()
	look := regexp.MustCompile(`^(sleep \d+; )?(holter (devices list|explain|events|runs)|cat|grep) `)
	got := sh.output(t, s)
	for began := time.Now(); !sameOutput(s.output, got) && look.MatchString(s.command) && time.Since(began) < commandLimit; {
		got = sh.output(t, step{command: "sleep 1; " + regexp.MustCompile(`^sleep \d+; `).ReplaceAllString(s.command, "")})
	}
	if !sameOutput(s.output, got) {
		t.Fatalf("$ %sprints\n%s\nand the page says\n%s", s.command, got, s.output)
	}
}

// output runs the command and returns what it prints. After a command that starts a server it waits
// until the API answers: a reader is slower than this test.
func (sh *shell) output(t *testing.T, s step) string {
	t.Helper()
	const end = "-- end of the command --"
	command := strings.TrimSuffix(sh.own(s.command), "\n")
	if regexp.MustCompile(`holter (serve|monitor)\b.*> holter\.log`).MatchString(command) {
		command += "\ncurl -sf --retry 50 --retry-connrefused --retry-delay 1 $HOLTER_API/readyz > /dev/null"
	}
	if m := regexp.MustCompile(`^mosquitto -p (\d+)`).FindStringSubmatch(command); m != nil {
		command += "\nuntil (exec 3<>/dev/tcp/127.0.0.1/" + m[1] + ") 2> /dev/null; do sleep 0.1; done"
	}
	if _, err := fmt.Fprintf(sh.in, "{ %s\n} 2>&1; echo; echo '%s'\n", command, end); err != nil {
		t.Fatalf("$ %s%v", s.command, err)
	}
	timeout := time.NewTimer(commandLimit)
	defer timeout.Stop()
	var got strings.Builder
	for {
		select {
		case line, ok := <-sh.lines:
			if ok && line != end {
				got.WriteString(line + "\n")
				continue
			}
			// A shell for people says elsewhere that a job in the background was killed.
			text := regexp.MustCompile(`(?m)^bash: line \d+: +\d+ Killed .*\n`).ReplaceAllString(got.String(), "")
			text = strings.TrimRight(text, "\n")
			for page, own := range sh.ports {
				text = strings.ReplaceAll(text, own, page)
			}
			if !ok {
				t.Fatalf("the shell ended; $ %shas printed\n%s", s.command, text)
			}
			return text
		case <-timeout.C:
			t.Fatalf("$ %sdoes not end; it has printed\n%s", s.command, got.String())
			return ""
		}
	}
}

// sameOutput reports whether got is what a page shows. Where the page says "…", anything may stand;
// in a line of its own it stands for any number of lines. Instants, durations, fractions and long
// numbers differ from run to run and are not compared, nor is how wide a gap between words is.
func sameOutput(page, got string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(normal(page)) {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*"))
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(normal(got))
}

// normal returns the text with one word for each thing that differs from run to run.
func normal(text string) string {
	for _, r := range []struct{ old, repl string }{
		{`(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:[0-9.]+Z?`, "INSTANT"},
		{`\b(\d+(\.\d+)?(ns|µs|ms|s|m|h|d))+\b`, "DURATION"},
		{`\d+\.\d+\b`, "FRACTION"},
		{`\b\d{5,}\b`, "NUMBER"},
		{`[ \t]+`, " "},
		{` *\n`, "\n"},
	} {
		text = regexp.MustCompile(r.old).ReplaceAllString(text, r.repl)
	}
	if text = strings.TrimSpace(text); text != "" {
		text += "\n"
	}
	return text
}

func TestSameOutput(t *testing.T) {
	tests := []struct {
		name      string
		page, got string
		want      bool
	}{
		{"equal", "a b\nc\n", "a b\nc\n", true},
		{"gap", "a  b\n", "a     b\n", true},
		{"another word", "a b\n", "a c\n", false},
		{"another count", "2 online\n", "3 online\n", false},
		{"a line more", "a\n", "a\nb\n", false},
		{"nothing", "", "", true},
		{"something for nothing", "", "error\n", false},
		{"any lines", "a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"rest of the line", "a …\nb\n", "a 1 2 3\nb\n", true},
		{"instants", "at 2026-11-21T02:33:11.680Z (5.001s ago)\n", "at 2027-01-02T03:04:05Z (1m2s ago)\n", true},
		{"no instant", "at 2026-11-21T02:33:11.680Z\n", "at once\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sameOutput(tt.page, tt.got); got != tt.want {
				t.Errorf("sameOutput(%q, %q) = %v, want %v", tt.page, tt.got, got, tt.want)
			}
		})
	}
}
