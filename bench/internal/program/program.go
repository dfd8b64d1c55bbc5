// Package program builds the program that benchmarks of the whole run.
package program

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build builds holter into a directory and returns its path. It needs the go
// command, and a working directory within the module.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "holter")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/holter-iot/holter/cmd/holter").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build holter: %w\n%s", err, out)
	}
	return path, nil
}
