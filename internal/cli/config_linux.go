package cli

import (
	"context"
	"fmt"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/server"
)

// read reads and checks a file.
func (f *fileFlags) read(file string) (config.Config, error) {
	resolve := config.Resolve
	switch {
	case f.Monitor:
		resolve = config.ResolveMonitor
	case f.Ear:
		resolve = config.ResolveEar
	}
	cfg, err := resolve(file, nil)
	if err == nil {
		err = server.Check(&cfg)
	}
	if err != nil {
		return cfg, usageError{fmt.Errorf("%s has mistakes:\n%w", file, err)}
	}
	return cfg, nil
}

// settings returns what is in force with a file.
func (f *fileFlags) settings(file string) (httpapi.Settings, error) {
	cfg, err := f.read(file)
	if err != nil {
		return httpapi.Settings{}, err
	}
	return server.SettingsOf(&cfg), nil
}

// configCheckCommand checks a file.
type configCheckCommand struct {
	fileFlags

	File string `arg:"" help:"YAML file."`
}

// Help is the text below the usage line.
func (*configCheckCommand) Help() string {
	return `It exits with 2 if there are mistakes. Environment variables are not looked at.

Example:

    holter config check fleet.yaml`
}

// Run checks the file.
func (c *configCheckCommand) Run(_ context.Context, out output) error {
	if _, err := c.read(c.File); err != nil {
		return err
	}
	return say(out.stdout, "%s is fine", c.File)
}
