// Package program builds the program that benchmarks of the whole run.
package program

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds holter into a directory, whose path is absolute, and returns the program's path. It needs the go command, and a working
// directory within the module of the benchmarks. Flags are further ones of go build.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	path := filepath.Join(dir, "holter")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/holter-iot/holter").Output()
	if err != nil {
		return "", fmt.Errorf("find holter's module: %w", err)
	}
	args := append([]string{"build", "-o", path}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/holter")...)
	build.Dir = strings.TrimSpace(string(root)) // the versions are those of the product, not of the benchmarks
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holter: %w\n%s", err, out)
	}
	return path, nil
}
