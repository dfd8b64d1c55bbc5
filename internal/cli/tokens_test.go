package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
)

// The life of a token, in a real database.
func TestToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	data, absent := "--data="+dir, filepath.Join(dir, "holter.db")
	for _, args := range [][]string{{"list"}, {"delete", "5f2a9c01"}} { // of a directory that is mistyped
		got := typeLine(t.Context(), t, append(append([]string{"tokens"}, args...), data)...)
		if _, err := os.Stat(dir); got.code != exitFailed || !strings.Contains(got.stderr, "the database "+absent+" does not exist") || err == nil {
			t.Fatalf("%v = %+v, and what it made: %v", args, got, err)
		}
	}
	made := typeLine(t.Context(), t, "tokens", "create", "--role=beat", "--name=site 7", data)
	if !strings.Contains(made.stderr, absent+" did not exist and was created") {
		t.Errorf("create in a new directory says %q", made.stderr)
	}
	secret, _, _ := strings.Cut(made.stdout, "\n")
	if made.code != 0 || len(secret) < 32 || strings.Count(made.stdout, secret) != 1 ||
		!strings.Contains(made.stdout, `curl -X POST -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/v1/beat/DEVICE`) {
		t.Fatalf("create = %+v", made)
	}
	var second tokenLine
	made = typeLine(t.Context(), t, "tokens", "create", "--role=admin", "--name=ops", "--json", data)
	if err := json.Unmarshal([]byte(made.stdout), &second); err != nil || second.Secret == "" || second.Role != "admin" || second.Name != "ops" {
		t.Fatalf("create = %+v, %v", made, err)
	}
	list := typeLine(t.Context(), t, "tokens", "list", data)
	if list.code != 0 || strings.Count(list.stdout, "\n") != 3 || !strings.Contains(list.stdout, "site 7") || !strings.Contains(list.stdout, second.ID) ||
		strings.Contains(list.stdout, secret) {
		t.Fatalf("list = %+v", list)
	}
	if got := typeLine(t.Context(), t, "tokens", "delete", second.ID, data); got.code != 0 || !strings.Contains(got.stdout, " deleted") {
		t.Fatalf("revoke = %+v", got)
	}
	if got := typeLine(t.Context(), t, "tokens", "delete", second.ID, data); got.code != exitFailed || !strings.Contains(got.stderr, "was not deleted") {
		t.Fatalf("revoke again = %+v", got)
	}
	if none := typeLine(t.Context(), t, "tokens", "list", "--data="+emptied(t)); none.code != 0 || !strings.HasPrefix(none.stdout, "no tokens; ") {
		t.Fatalf("list = %+v", none)
	}
	list = typeLine(t.Context(), t, "tokens", "list", "--json", data)
	var left tokenLine
	if err := json.Unmarshal([]byte(list.stdout), &left); err != nil || left.Name != "site 7" || left.Secret != "" || left.Created.IsZero() {
		t.Fatalf("list = %+v, %v", list, err)
	}
}

// emptied returns a directory with a database that holds no token any more.
func emptied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var made tokenLine
	got := typeLine(t.Context(), t, "tokens", "create", "--role=read", "--name=a", "--json", "--data="+dir)
	if err := json.Unmarshal([]byte(got.stdout), &made); err != nil {
		t.Fatal(err)
	}
	if got := typeLine(t.Context(), t, "tokens", "delete", made.ID, "--data="+dir); got.code != 0 {
		t.Fatalf("revoke = %+v", got)
	}
	return dir
}

func TestTokenOpens(t *testing.T) {
	file := tempFile(t, "http: 0.0.0.0:9000\nopen: true\ndata: from-file\ntls:\n  cert: a.pem\n  key: b.pem\n")
	tests := []struct {
		name     string
		env      map[string]string
		args     []string
		data     string
		database string
		api      string
	}{
		{"defaults", nil, nil, config.DefaultData, "", "http://127.0.0.1:8080"},
		{"file", nil, []string{"--config", file}, "from-file", "", "https://127.0.0.1:9000"},
		{"environment", map[string]string{"HOLTER_CONFIG": file, "HOLTER_DATA": "from-env"}, nil, "from-env", "", "https://127.0.0.1:9000"},
		{"command line", map[string]string{"HOLTER_DATA": "from-env"}, []string{"--data=x", "--database=postgres://u:p@h/d"}, "x", "postgres://u:p@h/d", "http://127.0.0.1:8080"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			var c commandLine
			parser, err := newParser(&c)
			if err != nil {
				t.Fatal(err)
			}
			line, err := parse(parser, append([]string{"tokens", "create", "--role=read", "--name=a"}, tt.args...))
			if err != nil {
				t.Fatal(err)
			}
			opened, err := resolveFlags(line, c.Tokens.Create.Config, config.Resolve)
			if err != nil || opened.Data != tt.data || opened.Database.Reveal() != tt.database || server.APIURL(opened) != tt.api {
				t.Errorf("%v, data %q, database %q, API %s", err, opened.Data, opened.Database.Reveal(), server.APIURL(opened))
			}
		})
	}
}

func TestTokenErrors(t *testing.T) {
	t.Run("configuration", func(t *testing.T) {
		got := typeLine(t.Context(), t, "tokens", "list", "--database=oracle:x")
		if got.code != exitUsage || !strings.Contains(got.stderr, "--database: ") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("no such directory", func(t *testing.T) {
		got := typeLine(t.Context(), t, "tokens", "create", "--role=read", "--name=a", "--data=/proc/1/none/data")
		if got.code != exitFailed || !strings.Contains(got.stderr, "the database cannot be opened: ") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("cause", func(t *testing.T) {
		got := explained("the database cannot be opened", syscall.ECONNREFUSED).Error()
		if want := "the database cannot be opened: connection refused\n" + sqldb.Explain(syscall.ECONNREFUSED); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("no server", func(t *testing.T) {
		got := typeLine(t.Context(), t, "tokens", "list", "--database=postgres://u@127.0.0.1:1/d")
		if got.code != exitFailed || got.stdout != "" || !strings.HasPrefix(got.stderr, "holter: the database cannot be opened: ") ||
			!strings.Contains(got.stderr, "connection refused: is the database server running") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the password stays secret", func(t *testing.T) {
		t.Setenv("HOLTER_DATABASE", "postgres://user:hunter2@127.0.0.1:1/db")
		for _, args := range [][]string{{"tokens", "list"}, {"tokens", "list", "--help"}, {"doctor", "--help"}} {
			if got := typeLine(t.Context(), t, args...); strings.Contains(got.stdout+got.stderr, "hunter2") {
				t.Errorf("%v shows the password: %+v", args, got)
			}
		}
	})
}
