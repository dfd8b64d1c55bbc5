package config

import (
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
)

// aYear is the longest of most durations.
const aYear = 365 * 24 * time.Hour

// serverSettings are addresses, access, and the limits of the fleet.
func serverSettings(c *Config) []setting {
	return []setting{
		live("listen", listeners(&c.Listen), "[line://"+DefaultListen+"]",
			"list of [where devices connect](#listen); `[off]`: nowhere. Only the `max_devices` of a port that had one can change without a restart").when(onlyLimits),
		fixed("http", strictyaml.Value(&c.HTTP, parseAddress), httpapi.DefaultAddress,
			"`HOST:PORT` where the API is served; for an ear `/healthz`, `/readyz` and `/metrics`, without TLS, by default at `"+DefaultEarHTTP+"`"),
		live("http_rate", strictyaml.Limit(&c.HTTPRate, 1, 1_000_000), strconv.Itoa(DefaultHTTPRate),
			"requests per second to the API from one IP address (in IPv6, from a network of 64 bits), heartbeats included; twice as many at once"),
		rebuilt("http_console", strictyaml.Value(&c.Console, parseConsole), on,
			"`on` or `off`: the [web console](../run/console.md) at `/console/`, to which `/` leads"),
		live("http_allow_origins", strictyaml.List(&c.Origins, "write an origin", parseOrigin), "none",
			"list of origins, such as `https://board.example`, whose pages may read the API in a browser (CORS), and connect to the broker "+
				"[by WebSocket](mqtt.md#the-broker-inside). They need a token like everybody, may change nothing, and the browser sends no credentials of its own"),
		fixed("tls.cert", strictyaml.Value(&c.TLS.Cert, parseFile), "plain HTTP",
			"PEM file: the certificate of the API, and the intermediate ones"),
		fixed("tls.key", strictyaml.Value(&c.TLS.Key, parseFile), "plain HTTP", "PEM file: its key"),
		fixed("data", strictyaml.Value(&c.Data, parseData), DefaultData, "directory for what is kept, by an ear `devices.key` alone; a relative one starts at the working directory"),
		fixed("database", strictyaml.Value(&c.Database, parseDatabase), "sqlite: in data",
			"`sqlite:FILE`, `postgres://USER:PASSWORD@HOST/NAME` or `mysql://USER:PASSWORD@HOST/NAME`. "+
				"`mysql` is tested with MariaDB 10.11; MySQL 8 speaks the same protocol, and is untested"),
		fixed("node", strictyaml.Value(&c.Node, parseNode), "the host's name",
			"1 to 64 letters, digits and `-_.`: the name of this server among [those that share the database](../run/cluster.md#several-servers-one-fleet), and in events. "+
				"Each needs its own. That of an ear is by default the host's name and the port of `http`, as in `host-8081`; an ear whose name another one of the judge has ends"),
		fixed("advertise", strictyaml.Value(&c.Advertise, parseAdvertise), "the address of http, with the host's name if that is every address",
			"`http://HOST:PORT` or `https://HOST:PORT`, where the other servers reach the API of this one"),
		fixed("accept_loss", strictyaml.Flag(&c.AcceptLoss), "false",
			"start although the [database that a note names](../run/backup.md#what-if-the-database-is-lost) is missing or another one, and forget its fleet; for one start only"),
		rebuilt("checkpoint", strictyaml.Span(&c.Store.Checkpoint, 100*time.Millisecond, time.Hour), "5s", "time between two checkpoints of the last heartbeats"),
		live("token", strictyaml.Value(&c.Token, parseToken), "no token",
			"1 to 256 visible ASCII characters, no spaces: one secret for all devices. A reload replaces it, unless other settings of access change with it; that there is one, or none, needs a restart").when(sameAccess),
		rebuilt("devices_file", strictyaml.Value(&c.DevicesFile, parseFile), "no file: all devices",
			"[file](#the-file-of-devices) of the devices that are admitted, each with its own secret; not together with `token`"),
		rebuilt("open", strictyaml.Flag(&c.Open), "false", "admit devices and callers of the API without a token, also from other machines"),
		rebuilt("reuse_port", strictyaml.Flag(&c.Gateway.ReusePort), "false", "open the device ports with SO_REUSEPORT"),
		live("min_timeout", strictyaml.Span(&c.Fleet.MinTimeout, time.Millisecond, defaultTimeout), "1s",
			"least effective `timeout` of a device: a policy below it is a mistake, and an announced timeout is raised to it"),
		live("max_devices", strictyaml.Number(&c.Fleet.MaxDevices, 1, liveness.MaxDevices), "2000000",
			"devices that there may be; beyond it new ones are refused (`ERR full`)"),
		live("forget_after", strictyaml.SpanOrOff(&c.ForgetAfter, time.Minute, aYear), "never",
			"listening time for which an offline device may be silent before it is forgotten. Devices below `devices`, with a policy set at run time, or in maintenance stay. "+
				"The last event, `device.forgotten`, says why"),
		live("forget_unverified_after", strictyaml.SpanOrOff(&c.ForgetUnverified, time.Minute, aYear), "7d",
			"the same for devices that were [never verified](#devices-that-were-never-verified), for which both hold"),
	}
}

// certificate lists the files of a certificate. doc says whose it is.
func certificate(files *cert.Files, byDefault, doc string) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("cert", strictyaml.Value(&files.Cert, parseFile), byDefault, "PEM file: "+doc),
		strictyaml.Key("key", strictyaml.Value(&files.Key, parseFile), byDefault, "PEM file: its key"),
	}
}

func logFields(l *Log) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("level", strictyaml.Value(&l.Level, parseLevel), "info", "`debug`, `info`, `warn` or `error`"),
		strictyaml.Key("format", strictyaml.Value(&l.Format, parseFormat), string(LogAuto), "`text`, `json`, or `auto`: text on a terminal, JSON otherwise"),
	}
}
