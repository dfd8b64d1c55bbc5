package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/credential"
)

// The files of deploy are without mistakes.
func TestDeploy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(credential.DirectoryEnv, dir)
	for name, text := range map[string]string{
		"token": "s3cret", "device_token": "s3cret", "database_password": "p@ss", "database": "postgres://holter:p@db/holter",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("../../deploy/kubernetes/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kubernetes struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &kubernetes); err != nil || len(kubernetes.Data) != 2 {
		t.Fatalf("the files of the ConfigMap are %v, %v", kubernetes.Data, err)
	}
	for name, text := range kubernetes.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file    string
		resolve func(string, []config.Setting) (config.Config, error)
	}{
		{"../../deploy/compose/holter.yaml", config.Resolve},
		{filepath.Join(dir, "judge.yaml"), config.Resolve},
		{filepath.Join(dir, "ear.yaml"), config.ResolveEar},
	} {
		if _, err := c.resolve(c.file, nil); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
	}
}
