//go:build linux

package serve

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findMosquitto returns the path of mosquitto, and an error if it is not installed.
func findMosquitto() (string, error) {
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mosquitto is not installed; deploy/testing/setup.sh does that")
}

// MosquittoVersion returns the name and version of mosquitto, "" if it is not installed.
func MosquittoVersion(ctx context.Context) string {
	program, err := findMosquitto()
	if err != nil {
		return ""
	}
	out, _ := exec.CommandContext(ctx, program, "-h").Output() // it ends with an error
	version, _, _ := strings.Cut(string(out), "\n")
	return strings.Replace(strings.TrimSpace(version), "version ", "", 1)
}

// Mosquitto starts mosquitto without authentication and persistence, with more lines of its
// configuration, and waits until it listens.
func Mosquitto(ctx context.Context, dir, log, more string) (*Server, error) {
	program, err := findMosquitto()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(ports[0], ":")
	file := filepath.Join(dir, "mosquitto.conf")
	settings := "allow_anonymous true\npersistence false\nlog_dest stderr\nlog_type error\n"
	if err := os.WriteFile(file, []byte("listener "+port+" 127.0.0.1\n"+settings+more), 0o600); err != nil {
		return nil, err
	}
	s, err := Program(ctx, Options{Program: program, Args: []string{"-c", file}, Log: log}, ports[0])
	s.MQTT = ports[0]
	return s, err
}
