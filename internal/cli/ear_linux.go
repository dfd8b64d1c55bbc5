package cli

import (
	"context"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
)

// earCommand is holter ear. See serveCommand for why it has no defaults.
type earCommand struct {
	Judge  []string `setting:"judges" env:"HOLTER_JUDGE" placeholder:"ADDRESS" help:"Where a judge listens for ears (its --link), as HOST:PORT or unix:PATH; may be repeated, for all servers that may be the judge."`
	Listen []string `setting:"listen" env:"HOLTER_LISTEN" placeholder:"ADDRESS" help:"Where devices connect, as [PROTOCOL[+PROTOCOL...]://]HOST:PORT, with line, frame, mqtt, jt808, gt06, teltonika, any, and tls or udp before them; may be repeated; off: none but --mqtt. Default: line://127.0.0.1:7700."`
	MQTT   string   `setting:"mqtt.listen" name:"mqtt" env:"HOLTER_MQTT" placeholder:"ADDRESS" help:"Where MQTT clients connect, as HOST:PORT, beside the ports of --listen; off: nowhere else. Default: 127.0.0.1:1883, unless --listen has a port that speaks mqtt, or is off."`

	DrainDelay string `setting:"drain.delay" env:"HOLTER_DRAIN_DELAY" placeholder:"DURATION" help:"At its end, time from when /readyz says no until connections are closed: what a load balancer takes to notice. Default: 10s."`
	DrainLimit string `setting:"drain.limit" env:"HOLTER_DRAIN_LIMIT" placeholder:"DURATION" help:"Time within which they are closed then, a few at a time. Default: 1m."`

	Node    string      `setting:"node" env:"HOLTER_NODE" placeholder:"NAME" help:"Name of this ear among those of its judge. Default: the host's name and the port of --http, as in host-8081."`
	HTTP    string      `setting:"http" name:"http" env:"HOLTER_HTTP" placeholder:"HOST:PORT" help:"Where /healthz, /readyz and /metrics are served. Default: 127.0.0.1:8081."`
	Certs   linkFlags   `embed:""`
	TLSCert string      `setting:"tls.cert" name:"tls-cert" env:"HOLTER_TLS_CERT" placeholder:"FILE" help:"Certificate of device ports with TLS, PEM; read again when it changes."`
	TLSKey  string      `setting:"tls.key" name:"tls-key" env:"HOLTER_TLS_KEY" placeholder:"FILE" help:"Its key."`
	Devices deviceFlags `embed:""`
	Open    toggle      `setting:"open" env:"HOLTER_OPEN" help:"Accept devices without a token, also from other machines."`
	Data    string      `setting:"data" env:"HOLTER_DATA" placeholder:"DIR" help:"Directory of devices.key, which --devices-file needs. Default: ./holter-data."`
	Config  string      `env:"HOLTER_CONFIG" placeholder:"FILE" help:"YAML file with these and all other settings."`
	Log     logFlags    `embed:""`
}

// Help is the text below the usage line.
func (*earCommand) Help() string {
	return `An ear holds the connections of devices and speaks their protocols. The judge, which runs "holter serve --link", decides about every device. There may be many ears, on many machines: a device may connect to any of them.

Examples:

    # a judge, and an ear beside it
    holter serve --link unix:judge.sock --listen 127.0.0.1:7700
    holter ear --judge unix:judge.sock --listen 127.0.0.1:7701 --mqtt 127.0.0.1:1884

    # on another machine, of two that may be the judge
    HOLTER_TOKEN=secret holter ear --judge a.example:7710,b.example:7710 --listen 0.0.0.0:7700 --link-cert ear.pem --link-key ear.key --link-ca ca.pem

An interrupt (SIGINT or SIGTERM) stops it in order: it sends its devices to others first, a few at a time. A second one stops it at once.`
}

// Run resolves the configuration and holds connections until the context ends.
func (c *earCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	hangups, stop := server.Hangups()
	defer stop()
	cfg, err := resolveFlags(command, c.Config, config.ResolveEar)
	if err != nil {
		return server.BadConfig(err)
	}
	return server.Ear(ctx, cfg, hangups, out.stdout, out.stderr)
}
