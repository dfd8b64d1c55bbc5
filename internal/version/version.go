// Package version is what this program is a version of.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Text is what holter --version prints.
func Text() string {
	return fmt.Sprintf("holter %s %s %s/%s", String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// String is the module's version, else the commit.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "devel"
}
