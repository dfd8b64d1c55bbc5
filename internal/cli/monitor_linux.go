package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/doctor"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// monitorCommand is holter monitor. See serveCommand for why it has no defaults.
type monitorCommand struct {
	Broker        []string `setting:"bridge.url" env:"HOLTER_MQTT_BROKER" placeholder:"URL" help:"MQTT broker to watch, as [SCHEME://]HOST[:PORT] with mqtt, mqtts, ws or wss; may be repeated."`
	Preset        []string `setting:"bridge.preset" env:"HOLTER_MQTT_PRESET" placeholder:"NAME" help:"What its messages mean; may be repeated. --list-presets shows the names."`
	Username      string   `setting:"bridge.username" env:"HOLTER_MQTT_USERNAME" placeholder:"NAME" help:"Name to log in to the broker with."`
	PasswordFile  string   `setting:"bridge.password_file" env:"HOLTER_MQTT_PASSWORD_FILE" placeholder:"FILE" help:"File with the password in its first line. Default: the password in HOLTER_MQTT_PASSWORD."`
	CA            string   `setting:"bridge.tls.ca" name:"ca" env:"HOLTER_MQTT_CA" placeholder:"FILE" help:"Whom to trust to know the broker, PEM. Default: the system's roots."`
	Cert          string   `setting:"bridge.tls.cert" env:"HOLTER_MQTT_CERT" placeholder:"FILE" help:"Certificate to show to the broker, PEM."`
	Key           string   `setting:"bridge.tls.key" env:"HOLTER_MQTT_KEY" placeholder:"FILE" help:"Its key."`
	Share         string   `setting:"bridge.share" env:"HOLTER_MQTT_SHARE" placeholder:"GROUP" help:"Subscribe as a member of a group, for brokers that allow nothing else."`
	Report        toggle   `setting:"bridge.report" env:"HOLTER_MQTT_REPORT" help:"Publish the state of each device to the broker, retained, as holter/DEVICE/state."`
	HomeAssistant toggle   `setting:"bridge.home_assistant" env:"HOLTER_MQTT_HOME_ASSISTANT" help:"The same, and as a sensor for each device in Home Assistant."`

	DryRun      bool   `help:"Show for each message what it would mean and why, and store nothing."`
	ListPresets bool   `help:"Print the names of the presets."`
	ShowPreset  string `placeholder:"NAME" help:"Print the rules of a preset as YAML, to be copied into a file and changed."`

	Server serverFlags `embed:""`
}

// Help is the text below the usage line.
func (*monitorCommand) Help() string {
	return `It connects to brokers that there are already, and judges the devices behind them. While a broker cannot be reached, nobody behind it is judged.

Examples:

    # all Tasmota and Zigbee2MQTT devices of a broker
    holter monitor --broker mqtt://broker.example --preset tasmota --preset zigbee2mqtt

    # what would its messages mean?
    holter monitor --broker mqtt://broker.example --preset shelly --dry-run

    # with a login, encrypted
    HOLTER_MQTT_PASSWORD=secret holter monitor --broker mqtts://broker.example --username holter --preset raw

Rules of your own, several brokers with different presets, and all else are written into a file, see --config.

Presets: ` + strings.Join(presets.Names(), ", ") + `.

An interrupt (SIGINT or SIGTERM) stops it in order; a second one stops it at once.`
}

// Run resolves the configuration and watches until the context ends.
func (c *monitorCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	switch {
	case c.ListPresets:
		return listPresets(out.stdout)
	case typedFlags(command)["show-preset"]:
		return showPreset(out.stdout, c.ShowPreset)
	}
	hangups, stop := server.Hangups()
	defer stop()
	cfg, err := resolveFlags(command, c.Server.Config, config.ResolveMonitor)
	switch {
	case err != nil:
		return server.BadConfig(err)
	case c.DryRun:
		stop()
		return server.DryRun(ctx, cfg, out.stdout, out.stderr)
	}
	return server.Serve(ctx, cfg, hangups, doctor.Inside, out.stdout, out.stderr)
}

// listPresets prints names, and what they are for.
func listPresets(out io.Writer) error {
	return printNames(out, presets.Names(), 0, func(name string) (string, error) {
		if spec, ok := presets.Spec(name); ok {
			return strings.ReplaceAll(spec.About, "\n", " "), nil
		}
		return "built in; it has no rules that could be shown", nil
	})
}

// printNames prints names in a column of a least width, and the first sentence of what they are for.
func printNames(out io.Writer, names []string, width int, about func(name string) (string, error)) error {
	for _, name := range names {
		width = max(width, len(name))
	}
	for _, name := range names {
		text, err := about(name)
		if err != nil {
			return err
		}
		text, _, _ = strings.Cut(text, ". ")
		if err := say(out, "%-*s  %s", width, name, text); err != nil {
			return err
		}
	}
	return nil
}

// showPreset prints the rules of a preset.
func showPreset(out io.Writer, name string) error {
	if _, err := config.ParsePreset(name); err != nil {
		return usageError{fmt.Errorf("--show-preset: %w", err)}
	}
	spec, ok := presets.Spec(name)
	if !ok {
		return usageError{fmt.Errorf("--show-preset: %s cannot be written as rules: it is code; --preset %s uses it", name, name)}
	}
	_, err := io.WriteString(out, spec.YAML())
	return err
}
