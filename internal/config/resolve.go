package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/gateway/cert"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// Setting is one value from the command line or the environment.
type Setting struct {
	// Key is as in the file, with a dot where it nests: listen, http, tls.cert, tls.key, data, database, accept_loss, open, token, devices_file, reuse_port,
	// log.level, log.format, broker.listen. Those of the bridges that stand on the command line begin with mqtt: mqtt.url, which
	// begins a list of its own, and for all of that list mqtt.preset, which may be repeated, mqtt.username, mqtt.password_file,
	// mqtt.ca, mqtt.cert, mqtt.key and mqtt.share. mqtt.password is for all bridges that have a name but no password. mqtt.report
	// and mqtt.home_assistant are booleans.
	Key    string
	Value  string // as it was written; booleans are true, 1, false and 0
	Origin string // where it was written, for messages: --listen, HOLTER_LISTEN
}

// Resolve returns the configuration. Settings override the file, which overrides
// the defaults. An empty file name is no file. Settings with the key listen
// together replace the file's list; of any other key the last one counts.
//
// The error joins all mistakes (errors.Join), each of which begins on a line
// of its own with the place where it was made.
func Resolve(file string, settings []Setting) (Config, error) {
	return (&resolver{}).resolve(file, settings)
}

// ResolveMonitor is Resolve for holter monitor: device ports and the broker
// inside the program are left out, and there must be a bridge.
func ResolveMonitor(file string, settings []Setting) (Config, error) {
	return (&resolver{monitor: true}).resolve(file, settings)
}

func (r *resolver) resolve(file string, settings []Setting) (Config, error) {
	r.cfg.HTTPRate = DefaultHTTPRate
	if file != "" {
		text, err := readFile(file)
		if err != nil {
			r.broken = true
			r.errs = append(r.errs, err)
		} else {
			r.load(file, text)
		}
	}
	for _, s := range settings {
		if err := r.apply(s); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", s.Origin, err))
		}
	}
	return r.finish()
}

// resolver collects a configuration and its mistakes.
type resolver struct {
	cfg        Config
	errs       []error
	httpAt     place
	tlsAt      place // of one half of a certificate
	broken     bool  // the file could not be read, so that all its settings are missing
	unsure     bool  // token, devices_file or open was given, but not understood
	overridden bool  // cfg.Listen holds settings, no longer the file's list

	monitor     bool  // for holter monitor
	brokerAt    place // nil: not given
	anonymousAt place
	reportAt    place
	devicesAt   place // of cfg.DevicesFile
	typed       typedBridges
	timeouts    []timeoutAt // of the policies
}

// timeoutAt is a timeout of a policy, and where it was written.
type timeoutAt struct {
	timeout time.Duration
	at      place
}

// finish fills the defaults and returns what was collected.
func (r *resolver) finish() (Config, error) {
	r.typed.settle(r)
	r.fillDefaults()
	r.checkTimeouts()
	r.checkAddresses()
	r.checkDevices()
	r.checkBroker()
	r.checkBridges()
	r.checkReport()
	if err := errors.Join(r.errs...); err != nil {
		return Config{}, err
	}
	return r.cfg, nil
}

// noteTimeout records the timeout of a policy and its place.
func (r *resolver) noteTimeout(timeout time.Duration, at place) {
	r.timeouts = append(r.timeouts, timeoutAt{timeout, at})
}

// checkTimeouts rejects policies with a timeout below min_timeout.
func (r *resolver) checkTimeouts() {
	for _, t := range r.timeouts {
		if t.timeout < r.cfg.Fleet.MinTimeout {
			r.errs = append(r.errs, t.at(fmt.Sprintf("%s is less than min_timeout (%s), which holds for all; set that lower if this is meant",
				duration.String(t.timeout), duration.String(r.cfg.Fleet.MinTimeout))))
		}
	}
}

// load reads the text of a file.
func (r *resolver) load(name, text string) {
	d, root, err := format().Parse(name, text)
	if err != nil {
		r.broken = true
		r.errs = append(r.errs, err)
		return
	}
	seen := d.Mapping("", root, r.root(d))
	r.unsure = seen["token"] != nil && !r.cfg.Token.IsSet() || seen["devices_file"] != nil && r.cfg.DevicesFile == ""
	r.errs = append(r.errs, d.Errs()...)
}

func (r *resolver) httpAddress(d *strictyaml.Reader) strictyaml.Setter {
	set := strictyaml.Value(d, &r.cfg.HTTP, parseAddress)
	return func(path string, n ast.Node) {
		set(path, n)
		r.httpAt = d.Place(path, n).Mistake
	}
}

// tls stores the section of that name.
func (r *resolver) tls(d *strictyaml.Reader) strictyaml.Setter {
	set := strictyaml.Section(d, []strictyaml.Field{
		{Key: "cert", Set: strictyaml.Value(d, &r.cfg.TLS.Cert, parseFile)},
		{Key: "key", Set: strictyaml.Value(d, &r.cfg.TLS.Key, parseFile)},
	})
	return func(path string, n ast.Node) {
		set(path, n)
		r.tlsAt = d.Place(path, n).Mistake
	}
}

// apply stores a setting.
func (r *resolver) apply(s Setting) error {
	c := &r.cfg
	switch s.Key {
	case "listen":
		return r.addListener(s)
	case "http":
		r.httpAt = s.at
		return assign(&c.HTTP, s.Value, parseAddress)
	case "tls.cert":
		r.tlsAt = s.at
		return assign(&c.TLS.Cert, s.Value, parseFile)
	case "tls.key":
		r.tlsAt = s.at
		return assign(&c.TLS.Key, s.Value, parseFile)
	case "data":
		return assign(&c.Data, s.Value, parseData)
	case "database":
		return assign(&c.Database, s.Value, parseDatabase)
	case "accept_loss":
		return assign(&c.AcceptLoss, s.Value, parseSwitch)
	case "open":
		err := assign(&c.Open, s.Value, parseSwitch)
		r.unsure = r.unsure || err != nil
		return err
	case "token":
		err := assign(&c.Token, s.Value, parseToken)
		r.unsure = r.unsure || err != nil
		return err
	case "devices_file":
		r.devicesAt = s.at
		err := assign(&c.DevicesFile, s.Value, parseFile)
		r.unsure = r.unsure || err != nil
		return err
	case "reuse_port":
		return assign(&c.Gateway.ReusePort, s.Value, parseSwitch)
	case "broker.listen":
		r.brokerAt = s.at
		return assign(&c.Broker.Listen, s.Value, parseAddressOrOff)
	case "log.level":
		return assign(&c.Log.Level, s.Value, parseLevel)
	case "log.format":
		return assign(&c.Log.Format, s.Value, parseFormat)
	}
	if strings.HasPrefix(s.Key, "mqtt.") {
		return r.typed.apply(s)
	}
	return fmt.Errorf("there is no setting %q", s.Key)
}

// devicesFile stores the name of the file of devices.
func (r *resolver) devicesFile(d *strictyaml.Reader) strictyaml.Setter {
	set := strictyaml.Value(d, &r.cfg.DevicesFile, parseFile)
	return func(path string, n ast.Node) {
		set(path, n)
		r.devicesAt = d.Place(path, n).Mistake
	}
}

func (r *resolver) addListener(s Setting) error {
	if !r.overridden {
		r.overridden = true
		r.cfg.Listen = nil
	}
	l, err := parseListener(s.Value)
	if err != nil {
		return err
	}
	l.at = strictyaml.Outside(s.Origin)
	r.cfg.Listen = append(r.cfg.Listen, l)
	return nil
}

func (s Setting) at(message string) error { return fmt.Errorf("%s: %s", s.Origin, message) }

func assign[T any](dst *T, text string, parse func(string) (T, error)) error {
	v, err := parse(text)
	if err == nil {
		*dst = v
	}
	return err
}

func (r *resolver) fillDefaults() {
	c := &r.cfg
	if r.monitor {
		c.Listen, c.Broker = nil, Broker{}
	} else if len(c.Listen) == 0 {
		c.Listen = []Listener{{Address: DefaultListen, Protocols: []string{ProtocolLine}, at: strictyaml.Outside("listen (default)")}}
	}
	if c.Fleet.MinTimeout == 0 {
		c.Fleet.MinTimeout = DefaultMinTimeout
	}
	if c.HTTP == "" {
		c.HTTP, r.httpAt = DefaultHTTP, Setting{Origin: "http (default)"}.at
	}
	if c.Broker.Listen == "" && !r.monitor {
		c.Broker.Listen, r.brokerAt = DefaultBroker, Setting{Origin: "broker.listen (default)"}.at
	}
	if c.Data == "" {
		c.Data = DefaultData
	}
	if c.Log.Format == "" {
		c.Log.Format = LogAuto
	}
}

// checkAddresses rejects an address that is used twice, a device port that
// other machines reach, also through a proxy, although nobody said that they
// may, and half of a certificate. (The API asks for a token where other
// machines reach it.) Ports of UDP and TCP have nothing to do with each other.
func (r *resolver) checkAddresses() {
	if r.broken {
		return
	}
	used := map[string]bool{}
	once := func(address string, at place) {
		_, port, _ := net.SplitHostPort(address)
		if used[address] && port != "0" {
			r.errs = append(r.errs, at(strings.TrimPrefix(address, udpPrefix)+" is used twice"))
		}
		used[address] = true
	}
	for i := range r.cfg.Listen {
		r.checkListener(&r.cfg.Listen[i], once)
	}
	once(r.cfg.HTTP, r.httpAt)
	if b := r.cfg.Broker.Listen; b != "" && b != brokerOff {
		once(b, r.brokerAt)
	}
	if (r.cfg.TLS.Cert == "") != (r.cfg.TLS.Key == "") {
		r.errs = append(r.errs, r.tlsAt("a certificate needs its key: give both --tls-cert and --tls-key, or neither"))
	}
}

// checkDevices rejects a shared token beside a file of devices.
func (r *resolver) checkDevices() {
	if r.cfg.DevicesFile != "" && r.cfg.Token.IsSet() && !r.broken && !r.monitor {
		r.errs = append(r.errs, r.devicesAt("there is a token for all devices, too; remove one of both: in the file of devices each has its own"))
	}
}

// udpPrefix tells the addresses of UDP from others.
const udpPrefix = "udp/"

// checkListener checks a device port against the other ports and settings, and fills in its
// certificate.
func (r *resolver) checkListener(l *Listener, once func(address string, at place)) {
	c := &r.cfg
	if l.Packets {
		once(udpPrefix+l.Address, l.Mistake)
	} else {
		once(l.Address, l.Mistake)
	}
	if l.TLS != nil && l.TLS.Cert == "" {
		l.TLS.Cert, l.TLS.Key = c.TLS.Cert, c.TLS.Key
		if c.TLS == (cert.Files{}) {
			r.errs = append(r.errs, l.Mistake("TLS needs a certificate: add --tls-cert FILE and --tls-key FILE (tls: in the file), "+
				"which are those of the API, too, or in the file tls: {cert: FILE, key: FILE} beside the address"))
		}
	}
	if reach := l.reach(); reach != "" && !c.Open && !c.Token.IsSet() && c.DevicesFile == "" && !l.Certified() && !r.unsure {
		r.errs = append(r.errs, l.Mistake(reach+", and there is no token: "+
			"add --token SECRET (HOLTER_TOKEN, or token: in the file), --devices-file FILE with the devices that may come in, "+
			"or --open to let every device in"))
	}
}
