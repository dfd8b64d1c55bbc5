package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
)

// Each testdata/mistakes/NAME.yaml has mistakes, and NAME.txt is the whole report of them.
// UPDATE_GOLDEN=1 in the environment writes the reports again.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := message(t, string(text)) + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("message\n%swant\n%s", got, want)
			}
		})
	}
}

// message returns the report of the mistakes in a file.
func message(t *testing.T, text string) string {
	t.Helper()
	cfg, err := config.ParseText("fleet.yaml", text)
	if err == nil {
		t.Fatalf("ParseText(%q) = %+v, want an error", text, cfg)
	}
	return err.Error()
}

// Files that are hard to keep as files.
func TestMistakesUnprintable(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "fleet.yaml: is empty; write some settings, or {} for none"},
		{"NUL byte", "open: true\ndata: a\x00b\n", "fleet.yaml:2: contains a NUL byte, or is not UTF-8"},
		{"not UTF-8", "data: \xff\n", "fleet.yaml:1: contains a NUL byte, or is not UTF-8"},
		{"UTF-16", "\xff\xfea\x00:\x00", "fleet.yaml:1: contains a NUL byte, or is not UTF-8"},
		{"too large", "#" + strings.Repeat(" ", 1<<20), "fleet.yaml: is larger than 1 MiB"},
		{
			"too many keys", strings.Repeat("a: 1\n", 60_001),
			"fleet.yaml:60001:2: more than 60000 keys\n60001 | a: 1\n      |  ^",
		},
		{
			"windows line ends", "open: true\r\nhttp: 80\r\n",
			"fleet.yaml:2:7: http: \"80\" is a port without a host; write 127.0.0.1:80\n" +
				"   2 | http: 80\n     |       ^",
		},
		{
			"byte order mark", "\ufeffhttp: 80",
			"fleet.yaml:1:7: http: \"80\" is a port without a host; write 127.0.0.1:80\n" +
				"   1 | http: 80\n     |       ^",
		},
		{
			"tab", "policy:\n\ttimeout: 5m\n",
			"fleet.yaml:2:1: is not valid YAML: found character '\\t' that cannot start any token; indent with spaces\n" +
				"   2 |  timeout: 5m\n     | ^",
		},
		{
			"escape sequence", "http: \x1b[31m\n",
			"fleet.yaml:1:7: http: \"\\x1b[31m\" has no port; write HOST:PORT, as in 127.0.0.1:7700\n" +
				"   1 | http:  [31m\n     |       ^",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := message(t, tt.text); got != tt.want {
				t.Errorf("message\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// No message shows the token, nor what stands where a token was meant.
func TestMistakesHideToken(t *testing.T) {
	tests := []struct{ name, text string }{
		{"list", "token: [hunter2]\n"},
		{"mapping", "token: {hunter2: x}\n"},
		{"tag", "token: !!str hunter2\n"},
		{"with a space", "token: hunter2 hunter2\n"},
		{"too long", "token: " + strings.Repeat("hunter2", 50) + "\n"},
		{"misspelt", "tokn: hunter2\n"},
		{"other name", "api-key: hunter2\nPassword: hunter2\nclient_secret: hunter2\n"},
		{"open quote", "token: \"hunter2\n"},
		{"colon", "token: hunter2: x\n"},
		{"reserved character", "token: @hunter2\n"},
		{"next line", "token:\n  hunter2\n  hunter2: a\n"},
		{"block", "bogus: 1\ntoken: |\n  hunter2\n  hunter2: 1\n"},
		{"flow", "{bogus: 1, token: hunter2, bogus: 1}\n"},
		{"flow over lines", "{\n  token:\n  hunter2, bogus: 1\n}\n"},
		{"no colon", "token hunter2\n"},
		{"equals sign", "{token=hunter2, http: 1}\n"},
		{"no space", "http: 1\ntoken:hunter2\n"},
		{"repeated", "token: hunter2\ntoken: hunter2\n"},
		{"nested", "policy:\n  token: hunter2\n  timeout: 1\n"},
		{"in a url", "bridges:\n- url: mqtt://u:hunter2@h\n  presets: [a]\n"},
		{"in a url without a scheme", "bridges: [{presets: [a], url: 'u:hunter2@h', bogus: 1}]\n"},
		{"password of a bridge", "bridges: [{url: h, presets: [a], password: hunter2}]\n"},
		{"password of a bridge on its own line", "bridges:\n- url: h\n  presets: [a]\n  password: hunter2\n  bogus: 1\n"},
		{"no mistake in it", "listen: [0.0.0.0:99999]\ntoken: hunter2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := message(t, tt.text); strings.Contains(got, "hunter2") {
				t.Errorf("the token is shown:\n%s", got)
			}
		})
	}
}

func TestMistakesAreJoined(t *testing.T) {
	_, err := config.ParseText("fleet.yaml", "polcy: {}\nhttp: 80\nevents: {keep: -1}\n")
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok || len(joined.Unwrap()) != 3 {
		t.Errorf("%v is not three joined errors", err)
	}
}
