package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// lint holds an OpenAPI description against the rules that redocly and spectral recommend; a warning
// is a failure. It is skipped where deploy/testing/setup.sh could not install them, with HOLTER_TEST_TOOLS=all
// too: a registry that cannot be reached must not stop a change.
func lint(t *testing.T, description []byte) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{"openapi.json": string(description), "rules.yaml": "extends: spectral:oas\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, pkg string
		args      []string
	}{
		{"redocly", "@redocly/cli", []string{"lint", "--extends=recommended-strict", "--format=stylish"}},
		{"spectral", "@stoplight/spectral-cli", []string{"lint", "--ruleset=rules.yaml", "--fail-severity=hint"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, modules, err := testenv.FindNode(tt.pkg)
			if err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			program := filepath.Join(modules, ".bin", tt.name)
			cmd := exec.CommandContext(t.Context(), node, append([]string{program}, append(tt.args, "openapi.json")...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v\n%s", tt.name, tt.args[0], err, out)
			}
		})
	}
}
