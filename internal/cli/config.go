package cli

import (
	"cmp"
	"context"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// configCommand is about configuration files.
type configCommand struct {
	Check configCheckCommand `cmd:"" help:"Report the mistakes of a configuration file, and start nothing."`
	Show  configShowCommand  `cmd:"" help:"Show the settings in force, and where each is from."`
}

// fileFlags say which command a file is for.
type fileFlags struct {
	Monitor bool `help:"The file is for holter monitor, not for holter serve." xor:"for"`
	Ear     bool `help:"The file is for holter ear, not for holter serve." xor:"for"`
}

// configShowCommand shows settings: of the running server, or of a file.
type configShowCommand struct {
	apiFlags
	jsonFlag
	fileFlags

	File string `arg:"" optional:"" help:"YAML file. Default: ask the running server what is in force there."`
}

// Help is the text below the usage line.
func (*configShowCommand) Help() string {
	return `Without a file it asks the running server. With one it shows what the file says, and the defaults of the rest: environment variables and options are not looked at. Secrets are hidden.

Examples:

    holter config show
    holter config show fleet.yaml`
}

// Run prints the settings.
func (c *configShowCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	var all httpapi.Settings
	if c.File == "" {
		if err := api.Get(ctx, "/v1/config", nil, &all); err != nil {
			return err
		}
	} else {
		var err error
		if all, err = c.settings(c.File); err != nil {
			return err
		}
	}
	if c.JSON {
		for _, s := range all.Settings {
			if err := terminal.EncodeJSON(out.stdout, s); err != nil {
				return err
			}
		}
		return nil
	}
	table := terminal.NewTable(terminal.ScreenOf(out.stdout), "KEY", "VALUE,least=20,spare", "FROM")
	for _, s := range all.Settings {
		table.Add(s.Key, s.Value, cmp.Or(s.At, s.From))
	}
	if err := table.Flush(out.stdout); err != nil || all.LeftOut == 0 {
		return err
	}
	return say(out.stdout, "%d more settings of the file are left out", all.LeftOut)
}
