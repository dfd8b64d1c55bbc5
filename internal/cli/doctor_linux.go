package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/doctor"
)

type doctorCommand struct {
	apiFlags
	storeFlags
	jsonFlag

	Connections int      `placeholder:"N" help:"How many devices are to be connected at a time. Default: gateway.max_connections of the configuration, else as many as open files allow."`
	Source      []string `placeholder:"ADDRESSES" help:"Ask about a load generator on this machine: where it is to connect from, as 127.0.0.2-127.0.0.40, 10.0.0.0/28 or one address; may be repeated."`
	Target      []string `placeholder:"ADDRESS" help:"Ask about a load generator: where it is to connect to, as [tcp://]HOST:PORT; may be repeated."`
}

// Help is the text below the usage line.
func (*doctorCommand) Help() string {
	return `It may be run while the server is, and should be run as the same user. It changes nothing, but that a database of an older version, or without tables, is brought up to date, as the server would do. It ends with 1 if a check fails.

With --connections it also looks for what would stop "holter loadgen" from playing so many devices on this machine, with the server on it, too: the checks that begin with "load". They only warn, but with --source or --target, which ask about the load generator instead of a server: then they fail, and the limits of a server are left out.

Examples:

    holter doctor --config fleet.yaml --connections 500000

    # can this machine play 500,000 devices?
    holter doctor --connections 500000 --source 127.0.0.2-127.0.0.40 --target 127.0.0.1:7700`
}

// Run checks, and prints what was found.
func (c *doctorCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	if c.Connections < 0 {
		return usageError{fmt.Errorf("--connections: %d is negative", c.Connections)}
	}
	if c.Connections == 0 && len(c.Source)+len(c.Target) > 0 {
		return usageError{errors.New("--source and --target are about a load generator; say with --connections how many devices it is to play")}
	}
	sources, err := parseSources(c.Source)
	if err != nil {
		return usageError{err}
	}
	cfg, mistakes := resolveFlags(command, c.Config, config.Resolve)
	if mistakes != nil {
		if cfg, err = config.Resolve("", nil); err != nil {
			return err
		}
	}
	return doctor.Print(out.stdout, doctor.Examine(ctx, doctor.Options{
		Config: cfg, ConfigFile: c.Config, Mistakes: mistakes, API: api, Wanted: c.API != "",
		Connections: c.Connections, Sources: sources, Targets: c.Target,
	}), c.JSON)
}

// storeFlags say where what is kept is, as for holter serve.
type storeFlags struct {
	Data     string     `setting:"data" env:"HOLTER_DATA" placeholder:"DIR" help:"Directory of what is stored. Default: ./holter-data."`
	Database secretFlag `setting:"database" env:"HOLTER_DATABASE" placeholder:"URL" help:"Database, as for holter serve. Default: SQLite in the directory."`
	Config   string     `env:"HOLTER_CONFIG" placeholder:"FILE" help:"YAML file of the server, which may say both."`
}
