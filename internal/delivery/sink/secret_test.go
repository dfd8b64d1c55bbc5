package sink_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/credential"
	"github.com/holter-iot/holter/internal/delivery/sink"
)

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(credential.DirectoryEnv, dir)
	for name, text := range map[string]string{"endpoint-slack": "ours\n", "endpoint-": "also ours", "endpoint": "SECRET", "Endpoint-slack": "SECRET", "database": "SECRET"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, setting, want, why string }{
		{name: "no credential", setting: "s3cret", want: "s3cret"},
		{name: "nothing"},
		{name: "the prefix alone", setting: "endpoint-slack", want: "endpoint-slack"},
		{name: "one for endpoints", setting: "credential:endpoint-slack", want: "ours"},
		{name: "the shortest name", setting: "credential:endpoint-", want: "also ours"},
		{name: "of the server", setting: "credential:database", why: `the credential "database" is not for endpoints: they read only those whose names begin with endpoint-; give the file such a name, as in credential:endpoint-NAME`},
		{name: "nearly", setting: "credential:endpoint", why: "begin with endpoint-"},
		{name: "other case", setting: "credential:Endpoint-slack", why: "begin with endpoint-"},
		{name: "no name", setting: "credential:", why: "begin with endpoint-"},
		{name: "a way round", setting: "credential:endpoint-/../database", why: "without a slash"},
		{name: "a way in", setting: "credential:./endpoint-slack", why: "begin with endpoint-"},
		{name: "missing", setting: "credential:endpoint-pager", why: "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sink.Secret(tt.setting)
			if got != tt.want || (err != nil) != (tt.why != "") || err != nil && (!strings.Contains(err.Error(), tt.why) || strings.Contains(err.Error(), "SECRET")) {
				t.Errorf("Secret(%q) = %q, %v, want %q, an error with %q", tt.setting, got, err, tt.want, tt.why)
			}
		})
	}
}
