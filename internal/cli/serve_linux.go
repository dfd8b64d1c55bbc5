package cli

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/doctor"
	"github.com/holter-iot/holter/internal/server"
)

const example = "holter serve --listen 127.0.0.1:7700"

// serveCommand is holter serve. Like serverFlags it has neither defaults nor types: an option that is
// not given must not override the file, and package config explains mistakes better. The empty text
// counts as not given, except on the command line itself. The tag setting is the key of a
// config.Setting.
type serveCommand struct {
	Listen []string `setting:"listen" env:"HOLTER_LISTEN" placeholder:"ADDRESS" help:"Where devices connect, as [PROTOCOL[+PROTOCOL...]://]HOST:PORT, with line, frame, mqtt, jt808, gt06, teltonika, any, and tls or udp before them; may be repeated; off: none but --mqtt. Default: line://127.0.0.1:7700."`
	MQTT   string   `setting:"mqtt.listen" name:"mqtt" env:"HOLTER_MQTT" placeholder:"ADDRESS" help:"Where MQTT clients connect, as HOST:PORT, beside the ports of --listen; off: nowhere else. Default: 127.0.0.1:1883, unless --listen has a port that speaks mqtt, or is off."`

	Server  serverFlags `embed:""`
	Devices deviceFlags `embed:""`

	Link  string    `setting:"link.listen" env:"HOLTER_LINK" placeholder:"ADDRESS" help:"Where ears connect, as HOST:PORT or unix:PATH, see holter ear. Default: nowhere."`
	Certs linkFlags `embed:""`
}

// deviceFlags are those of commands that devices connect to.
type deviceFlags struct {
	Token       secretFlag `setting:"token" env:"HOLTER_TOKEN" placeholder:"SECRET" help:"Shared token of the devices. Other users of this machine see command lines: prefer the environment or the file."`
	DevicesFile string     `setting:"devices_file" env:"HOLTER_DEVICES_FILE" placeholder:"FILE" help:"File of the devices that may connect, one line each as holter devices token prints it; read again when it changes. Default: all, or those with the token."`
	ReusePort   toggle     `setting:"reuse_port" env:"HOLTER_REUSE_PORT" help:"Open the device ports with SO_REUSEPORT."`
}

// linkFlags are those of both ends of a link.
type linkFlags struct {
	Cert string `setting:"link.tls.cert" name:"link-cert" env:"HOLTER_LINK_CERT" placeholder:"FILE" help:"Certificate for the link between ears and judge, PEM; read again when it changes. Default: no TLS, for this machine only."`
	Key  string `setting:"link.tls.key" name:"link-key" env:"HOLTER_LINK_KEY" placeholder:"FILE" help:"Its key."`
	CA   string `setting:"link.tls.ca" name:"link-ca" env:"HOLTER_LINK_CA" placeholder:"FILE" help:"Authorities that sign the certificates of the other end of the link, PEM."`
}

// serverFlags are those of all commands that watch devices.
type serverFlags struct {
	HTTP      string     `setting:"http" name:"http" env:"HOLTER_HTTP" placeholder:"HOST:PORT" help:"Where the API is served. Default: 127.0.0.1:8080."`
	Console   string     `setting:"http_console" name:"http-console" env:"HOLTER_HTTP_CONSOLE" placeholder:"on|off" help:"Whether the web console is served at /console/. Default: on."`
	Origins   string     `setting:"http_allow_origins" name:"http-allow-origins" env:"HOLTER_HTTP_ALLOW_ORIGINS" placeholder:"ORIGIN,..." help:"Origins whose pages may read the API in a browser (CORS) and connect to the broker by WebSocket, such as https://board.example. Default: none."`
	TLSCert   string     `setting:"tls.cert" name:"tls-cert" env:"HOLTER_TLS_CERT" placeholder:"FILE" help:"Certificate of the API, PEM; read again when it changes. Default: plain HTTP."`
	TLSKey    string     `setting:"tls.key" name:"tls-key" env:"HOLTER_TLS_KEY" placeholder:"FILE" help:"Its key."`
	Data      string     `setting:"data" env:"HOLTER_DATA" placeholder:"DIR" help:"Data directory. Default: ./holter-data."`
	Database  secretFlag `setting:"database" env:"HOLTER_DATABASE" placeholder:"URL" help:"Database: sqlite:FILE, postgres://USER@HOST/NAME or mysql://USER@HOST/NAME. Default: SQLite in the data directory."`
	Node      string     `setting:"node" env:"HOLTER_NODE" placeholder:"NAME" help:"Name of this server among those that share the database. Default: the host's name."`
	Advertise string     `setting:"advertise" env:"HOLTER_ADVERTISE" placeholder:"URL" help:"Where the other servers reach the API of this one. Default: the address of --http, with the host's name if it is that of all interfaces."`
	Config    string     `env:"HOLTER_CONFIG" placeholder:"FILE" help:"YAML file with these and all other settings."`
	Open      toggle     `setting:"open" env:"HOLTER_OPEN" help:"Accept devices and API calls without a token, also from other machines."`
	Log       logFlags   `embed:""`

	AcceptLoss toggle `setting:"accept_loss" env:"HOLTER_ACCEPT_LOSS" help:"Start a new fleet although the data directory belongs to one whose database is gone, empty or another one. For one start only."`
}

// logFlags say what is logged.
type logFlags struct {
	LogLevel  string `setting:"log.level" env:"HOLTER_LOG_LEVEL" placeholder:"LEVEL" help:"What is logged: debug, info, warn or error. Default: info."`
	LogFormat string `setting:"log.format" env:"HOLTER_LOG_FORMAT" placeholder:"FORMAT" help:"How: text, json, or auto, which is text on a terminal and JSON otherwise. Default: auto."`
}

// Help is the text below the usage line.
func (*serveCommand) Help() string {
	return `An option on the command line overrides its environment variable, which overrides the file, which overrides the default.

Examples:

    # devices on this machine only
    holter serve

    # devices in the network, with a token and a file
    HOLTER_TOKEN=secret holter serve --listen 0.0.0.0:7700 --config fleet.yaml

    # MQTT clients that log in, over TLS
    holter serve --listen tls+mqtt://0.0.0.0:8883 --tls-cert cert.pem --tls-key key.pem --config fleet.yaml

    # several protocols at one port, and only devices that stand in a file
    holter serve --listen line+jt808+gt06://0.0.0.0:7700 --devices-file devices

    # ears on this machine hold connections, too
    holter serve --link 127.0.0.1:7710

An interrupt (SIGINT or SIGTERM) stops it in order; a second one stops it at once.`
}

// Run resolves the configuration and serves until the context ends.
func (c *serveCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	hangups, stop := server.Hangups()
	defer stop()
	cfg, err := resolveFlags(command, c.Server.Config, config.Resolve)
	if err != nil {
		return server.BadConfig(err)
	}
	return server.Serve(ctx, cfg, hangups, doctor.Inside, out.stdout, out.stderr)
}

// resolveFlags joins command line, environment, a configuration file and defaults.
func resolveFlags(command *kong.Context, file string, resolve func(string, []config.Setting) (config.Config, error)) (config.Config, error) {
	typed := typedFlags(command)
	if file == "" && typed["config"] {
		return config.Config{}, errors.New("--config: the name of the file is empty")
	}
	var settings []config.Setting
	for _, flag := range command.Flags() {
		key, origin := flag.Tag.Get("setting"), "--"+flag.Name
		if !typed[flag.Name] && len(flag.Envs) > 0 {
			origin = flag.Envs[0]
		}
		values, isList := reflect.TypeAssert[[]string](flag.Target)
		if !isList {
			values = []string{flag.Target.String()}
		}
		for _, value := range values {
			if isList {
				value = strings.TrimSpace(value)
			}
			if key != "" && (value != "" || typed[flag.Name]) {
				settings = append(settings, config.Setting{Key: key, Value: value, Origin: origin})
			}
		}
	}
	return resolve(file, append(settings, config.Setting{Key: "bridge.password", Value: os.Getenv(passwordEnv), Origin: passwordEnv}))
}

// passwordEnv holds the password for brokers elsewhere. There is no option for
// it: other users of the machine see command lines.
const passwordEnv = "HOLTER_MQTT_PASSWORD"

// typedFlags returns the flags that stand on the command line itself.
func typedFlags(command *kong.Context) map[string]bool {
	typed := map[string]bool{}
	for _, part := range command.Path {
		if part.Flag != nil && !part.Resolved {
			typed[part.Flag.Name] = true
		}
	}
	return typed
}

// toggle is a boolean flag as it was written: --open, --open=false.
type toggle string

// IsBool tells kong that the flag needs no value.
func (toggle) IsBool() bool { return true }

// Decode implements kong.BoolMapperValue.
func (t *toggle) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*t = "true"
		return nil
	}
	token, err := ctx.Scan.PopValue("true or false")
	*t = toggle(token.String())
	return err
}
