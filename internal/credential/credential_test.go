package credential_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/credential"
)

// directory returns a directory of credentials, which the environment names.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(credential.DirectoryEnv, dir)
	return dir
}

func TestRead(t *testing.T) {
	directory(t, map[string]string{"plain": "s3cret", "line": "s3cret\n", "crlf": "s3cret\r\n", "spaces": " s3 cret \n\n", "holter.token": "dotted"})
	for _, c := range []struct{ name, value, want string }{
		{"a value that names no credential", "s3cret", "s3cret"},
		{"nothing", "", ""},
		{"the word elsewhere", "my credential:plain", "my credential:plain"},
		{"a file without a line end", "credential:plain", "s3cret"},
		{"a file with one", "credential:line", "s3cret"},
		{"a file of Windows", "credential:crlf", "s3cret"},
		{"one line end is cut, and nothing else", "credential:spaces", " s3 cret \n"},
		{"a dot in the name", "credential:holter.token", "dotted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := credential.Read(c.value); got != c.want || err != nil {
				t.Errorf("Read(%q) = %q, %v, want %q", c.value, got, err, c.want)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	dir := directory(t, map[string]string{"empty": "", "newline": "\n", "nul": "s3cret\x00", "long": "s3cret" + strings.Repeat("x", 64<<10)})
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"no name", "credential:", "without a slash"},
		{"a path", "credential:../etc/shadow", "without a slash"},
		{"an absolute path", "credential:/etc/shadow", "without a slash"},
		{"the directory above", "credential:..", "without a slash"},
		{"no such file", "credential:missing", filepath.Join(dir, "missing") + ": no such file"},
		{"an empty file", "credential:empty", filepath.Join(dir, "empty") + " is empty"},
		{"a line end alone", "credential:newline", "is empty"},
		{"a NUL byte", "credential:nul", "holds a NUL byte"},
		{"a long file", "credential:long", "holds more than 65536 bytes"},
		{"a folder", "credential:folder", "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := credential.Read(c.value)
			if got != "" || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("Read(%q) = %q, %v, want an error with %q", c.value, got, err, c.want)
			}
		})
	}
}

func TestReadWithoutDirectory(t *testing.T) {
	t.Setenv(credential.DirectoryEnv, "")
	for _, want := range []string{"CREDENTIALS_DIRECTORY is not set", "LoadCredential=token:FILE", "/run/secrets"} {
		if _, err := credential.Read("credential:token"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read without a directory: %v, want an error with %q", err, want)
		}
	}
}

func TestFile(t *testing.T) {
	dir := directory(t, nil)
	for _, c := range []struct{ value, want string }{
		{"credential:link.key", filepath.Join(dir, "link.key")},
		{"/etc/holter/link.key", "/etc/holter/link.key"},
		{"link.key", "link.key"},
	} {
		if got, err := credential.File(c.value); got != c.want || err != nil {
			t.Errorf("File(%q) = %q, %v, want %q", c.value, got, err, c.want)
		}
	}
	if got, err := credential.File("credential:a/b"); got != "" || err == nil {
		t.Errorf("File of a name with a slash = %q, %v", got, err)
	}
}
