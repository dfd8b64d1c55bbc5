package config

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// format is that of the configuration file.
func format() strictyaml.Format {
	return strictyaml.Format{
		MaxSize:     1 << 20,
		MaxKeys:     60_000,
		Empty:       "write some settings, or {} for none",
		NullIsEmpty: true,
	}
}

// readFile returns the text of a configuration file.
func readFile(name string) (string, error) {
	text, err := format().ReadFile(name)
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "", fmt.Errorf("%s: is a directory; --config takes a YAML file", name)
	case err != nil:
		return "", fmt.Errorf("%s: cannot read the configuration file: %w", name, err)
	}
	return text, nil
}
