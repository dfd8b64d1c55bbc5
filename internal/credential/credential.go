// Package credential reads secrets that stand in files: those of systemd's LoadCredential, and those that
// containers mount. A setting names one as credential:NAME; every other value is the secret itself.
package credential

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// DirectoryEnv is the environment variable with the directory of the files. systemd sets it for a service
// that has credentials; in a container it is mostly /run/secrets.
const DirectoryEnv = "CREDENTIALS_DIRECTORY"

const (
	prefix = "credential:"
	most   = 64 << 10 // bytes of a secret
)

// Read returns the secret of a setting: for credential:NAME the text of the file NAME in the directory of
// DirectoryEnv, without the line end after it; otherwise value itself. The file is read at each call.
//
// It fails if there is no such directory or file, if the file is empty, holds a NUL byte or more than 64
// KiB, and if NAME is no plain file name. No error shows a secret.
func Read(value string) (string, error) {
	file, err := File(value)
	if err != nil || file == value {
		return file, err
	}
	text, err := read(file)
	if err != nil {
		return "", fmt.Errorf("a credential of %s: %w; look at LoadCredential= of the service, or at the secrets of the container", DirectoryEnv, err)
	}
	return text, nil
}

// File returns the file of a setting that takes the name of one: for credential:NAME that of the
// credential, whether it exists or not; otherwise value itself. It fails if there is no directory, and if
// NAME is no plain file name.
func File(value string) (string, error) {
	name, ok := strings.CutPrefix(value, prefix)
	if !ok {
		return value, nil
	}
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", errors.New("write credential:NAME, where NAME is the name of a file, without a slash")
	}
	dir := os.Getenv(DirectoryEnv)
	if dir == "" {
		return "", fmt.Errorf("the credential %q is not to be had, since %s is not set: systemd sets it for a service with LoadCredential=%s:FILE; "+
			"elsewhere set it to the directory that holds the file, in a container mostly /run/secrets", name, DirectoryEnv, name)
	}
	return filepath.Join(dir, name), nil
}

func read(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	switch {
	case len(content) > most:
		return "", fmt.Errorf("%s holds more than %d bytes", file, most)
	case text == "":
		return "", fmt.Errorf("%s is empty", file)
	case strings.Contains(text, "\x00"):
		return "", fmt.Errorf("%s holds a NUL byte", file)
	}
	return text, nil
}
