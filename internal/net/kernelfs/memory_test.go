package kernelfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holter-iot/holter/internal/net/kernelfs"
)

func TestMemory(t *testing.T) {
	const meminfo = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    600 kB\n"
	for _, c := range []struct {
		name        string
		files       map[string]string
		limit, free uint64
		of          string
	}{
		{"nothing is known", nil, 0, 0, "this machine"},
		{"no control group", map[string]string{"proc/meminfo": meminfo}, 1000 << 10, 600 << 10, "this machine"},
		{"version 2", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "512000\n", "sys/fs/cgroup/a/memory.current": "500000\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "500000\n",
		}, 512_000, 12_000, "the control group"},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu,memory:/not/here\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "900000", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000000",
		}, 900_000, 0, "the control group"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				name = filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			limit, free, of := kernelfs.Root(root).Memory()
			if limit != c.limit || free != c.free || of != c.of {
				t.Errorf("Memory() = %d, %d, %q, want %d, %d, %q", limit, free, of, c.limit, c.free, c.of)
			}
		})
	}
}
