package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
)

// Setting is one value from the command line or the environment.
type Setting struct {
	// Key is as in the file, with a dot where it nests: listen, http, http_console, http_allow_origins, tls.cert, tls.key, data, database, accept_loss, open, token, devices_file, reuse_port,
	// log.level, log.format, mqtt.listen, judges, drain.delay, drain.limit, link.listen, link.tls.cert, link.tls.key, link.tls.ca. Those of the bridges that stand on the command line begin with bridge: bridge.url, which
	// begins a list of its own, and for all of that list bridge.preset, which may be repeated, bridge.username, bridge.password_file,
	// bridge.tls.ca, bridge.tls.cert, bridge.tls.key and bridge.share. bridge.password is for all bridges that have a name but no password.
	// bridge.report and bridge.home_assistant are booleans.
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
	return resolve(resolver{}, file, settings)
}

// ResolveMonitor is Resolve for holter monitor: device ports and the section
// mqtt are left out, and there must be a bridge.
func ResolveMonitor(file string, settings []Setting) (Config, error) {
	return resolve(resolver{monitor: true}, file, settings)
}

// ResolveEar is Resolve for holter ear: there must be a judge, and what only that has is a mistake.
func ResolveEar(file string, settings []Setting) (Config, error) {
	return resolve(resolver{ear: true}, file, settings)
}

// resolve resolves with a copy of r, and lets the configuration be read again.
func resolve(r resolver, file string, settings []Setting) (Config, error) {
	once := r
	c, err := once.resolve(file, settings)
	c.again = func() (Config, error) { return resolve(r, file, settings) }
	return c, err
}

func (r *resolver) resolve(file string, settings []Setting) (Config, error) {
	r.cfg.HTTPRate, r.cfg.ForgetUnverified, r.cfg.Jobs.Keep = DefaultHTTPRate, DefaultForgetUnverified, DefaultKeepJobs
	if r.ear {
		r.cfg.Drain = Drain{Delay: DefaultDrainDelay, Limit: DefaultDrainLimit}
	}
	if file != "" {
		text, err := readFile(file)
		if err != nil {
			r.broken = true
			r.errs = append(r.errs, err)
		} else {
			r.load(file, text)
		}
	}
	r.given, r.options = make(map[string]spot, len(settings)), make(map[string][]Setting)
	for _, s := range settings {
		r.apply(s)
	}
	return r.finish()
}

// resolver collects a configuration and its mistakes.
type resolver struct {
	cfg         Config
	errs        []error
	given       map[string]spot      // the settings by key, and the latest of each section
	fileName    string               // "": there is none
	document    ast.Node             // of the file; nil if there is none
	options     map[string][]Setting // by key, in their order
	typed       typedBridges
	monitor     bool // for holter monitor
	ear         bool // for holter ear
	broken      bool // the file could not be read, so that all its settings are missing
	unsure      bool // token, devices_file or open was given, but not understood
	overridden  bool // cfg.Listen holds settings, no longer the file's list
	otherJudges bool // the same of cfg.Judges
}

// finish fills the defaults and returns what was collected.
func (r *resolver) finish() (Config, error) {
	r.typed.settle(r)
	r.fillDefaults()
	r.checkTimeouts()
	r.checkAddresses()
	r.checkDevices()
	r.checkMQTT()
	r.checkBridges()
	r.checkReport()
	r.checkLink()
	r.checkEar()
	if err := errors.Join(r.errs...); err != nil {
		return Config{}, err
	}
	r.noteInForce()
	if len(r.cfg.Playbooks) == 0 {
		r.cfg.file = nil // nobody asks it any more
	}
	return r.cfg, nil
}

// at returns where the first of some keys that was given stands.
func (r *resolver) at(keys ...string) (place spot) {
	for _, key := range keys {
		if at, ok := r.given[key]; ok {
			return at
		}
		place = strictyaml.Outside(key + " (default)")
		if r.cfg.file == nil {
			continue
		}
		if at, found := r.cfg.file.At(key); found {
			return at
		}
	}
	return place
}

// fail adds a mistake in a setting, unless it may be due to a file that could not be read.
func (r *resolver) fail(message string, keys ...string) {
	if !r.broken {
		r.errs = append(r.errs, r.at(keys...).Mistake(message))
	}
}

// checkTimeouts rejects policies with a timeout below min_timeout.
func (r *resolver) checkTimeouts() {
	f := &r.cfg.Fleet
	check := func(p liveness.Policy, path string) {
		if p.Timeout != 0 && p.Timeout < f.MinTimeout {
			r.fail(fmt.Sprintf("%s is less than min_timeout (%s), which holds for all; set that lower if this is meant",
				duration.String(p.Timeout), duration.String(f.MinTimeout)), path+".timeout")
		}
	}
	check(f.Policy, "policy")
	for i, g := range f.Groups {
		check(g.Policy, strictyaml.Element("groups", i)+".policy")
	}
	for _, id := range slices.Sorted(maps.Keys(f.Devices)) {
		check(f.Devices[id], devicePath("devices", id))
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
	r.cfg.file, r.document, r.fileName = d, root, name
	d.Mapping("", root, fields(&r.cfg))
	checkPolicy(d, "policy", r.cfg.Fleet.Policy, defaultTimeout)
	checkReportTo(d)
	r.unsure = d.Has("token") && !r.cfg.Token.IsSet() || d.Has("devices_file") && r.cfg.DevicesFile == ""
	r.errs = append(r.errs, d.Errs()...)
}

// apply stores a setting.
func (r *resolver) apply(s Setting) {
	d, n := strictyaml.Given(s.Origin, s.Value)
	r.options[s.Key] = append(r.options[s.Key], s)
	section, _, _ := strings.Cut(s.Key, ".")
	r.given[s.Key], r.given[section] = d.Place(s.Key, n), d.Place(s.Key, n)
	if set, ok := r.setter(s.Key); ok {
		set.Read(d, s.Key, n)
	} else {
		d.Fail(s.Key, n, "there is no setting %q", s.Key)
	}
	r.unsure = r.unsure || d.Mistakes() > 0 && slices.Contains([]string{"token", "devices_file", "open"}, s.Key)
	r.errs = append(r.errs, d.Errs()...)
}

// setter returns what stores a setting; false if there is no such key.
func (r *resolver) setter(key string) (set strictyaml.Setter, ok bool) {
	if key, ok := strings.CutPrefix(key, "bridge."); ok {
		return r.typed.setter(key)
	}
	switch key {
	case "http_allow_origins":
		return strictyaml.Value(&r.cfg.Origins, parseOrigins), true
	case "judges":
		if !r.otherJudges {
			r.otherJudges, r.cfg.Judges = true, nil
		}
		return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
			var address string
			if strictyaml.Value(&address, parseJudge).Read(d, path, n); address != "" {
				r.cfg.Judges = append(r.cfg.Judges, address)
			}
		}}, true
	case "listen":
		if !r.overridden {
			r.overridden, r.cfg.Listen = true, nil
		}
		return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
			if l := listener(d, path, n); l.Address != "" {
				r.cfg.Listen = append(r.cfg.Listen, l)
			}
		}}, true
	}
	return strictyaml.Find(fields(&r.cfg), key)
}

func (r *resolver) fillDefaults() {
	c := &r.cfg
	if r.monitor {
		c.Listen, c.Link, c.MQTT = nil, Link{}, MQTT{}
	} else {
		r.settleListen()
		r.fillAnonymous()
	}
	c.Fleet.MinTimeout = cmp.Or(c.Fleet.MinTimeout, DefaultMinTimeout)
	if r.ear {
		c.HTTP = cmp.Or(c.HTTP, DefaultEarHTTP)
	} else {
		c.Console = cmp.Or(c.Console, on)
	}
	c.HTTP = cmp.Or(c.HTTP, httpapi.DefaultAddress)
	c.Data = cmp.Or(c.Data, DefaultData)
	c.Log.Format = cmp.Or(c.Log.Format, LogAuto)
}

// settleListen fills in the default device port and that of MQTT clients, and takes off for none.
func (r *resolver) settleListen() {
	all := &r.cfg.Listen
	if len(*all) == 0 {
		*all = []Listener{{Address: DefaultListen, Protocols: []string{ProtocolLine}, at: strictyaml.Outside("listen (default)")}}
	}
	at := slices.IndexFunc(*all, func(l Listener) bool { return l.Address == off })
	if at < 0 {
		r.listenMQTT(DefaultMQTT)
		return
	}
	none := (*all)[at]
	if len(*all) > 1 {
		r.errs = append(r.errs, none.Mistake("off stands beside device ports; remove it, or them"))
	}
	*all = slices.Delete(*all, at, at+1)
	r.listenMQTT(off)
	if r.ear && len(*all) == 0 {
		r.errs = append(r.errs, none.Mistake("an ear without device ports hears nobody; write where devices connect"))
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
	once := func(address string, at spot) {
		_, port, _ := net.SplitHostPort(address)
		if used[address] && port != "0" {
			r.errs = append(r.errs, at.Mistake(strings.TrimPrefix(address, udpPrefix)+" is used twice"))
		}
		used[address] = true
	}
	for i := range r.cfg.Listen {
		r.checkListener(&r.cfg.Listen[i], once)
	}
	once(r.cfg.HTTP, r.at("http"))
	if l := r.cfg.Link.Listen; l != "" {
		once(l, r.at("link.listen"))
	}
	if (r.cfg.TLS.Cert == "") != (r.cfg.TLS.Key == "") {
		r.fail("a certificate needs its key: give both --tls-cert and --tls-key, or neither", "tls")
	}
}

// checkDevices rejects a shared token beside a file of devices.
func (r *resolver) checkDevices() {
	if r.cfg.DevicesFile != "" && r.cfg.Token.IsSet() && !r.monitor {
		r.fail("there is a token for all devices, too; remove one of both: in the file of devices each has its own", "devices_file")
	}
}

// udpPrefix tells the addresses of UDP from others.
const udpPrefix = "udp/"

// checkListener checks a device port against the other ports and settings, and fills in its
// certificate.
func (r *resolver) checkListener(l *Listener, once func(address string, at spot)) {
	c := &r.cfg
	if l.Packets {
		once(udpPrefix+l.Address, l.at)
	} else {
		once(l.Address, l.at)
	}
	if l.TLS != nil && l.TLS.Cert == "" {
		l.TLS.Cert, l.TLS.Key = c.TLS.Cert, c.TLS.Key
		if c.TLS == (cert.Files{}) {
			r.errs = append(r.errs, l.Mistake("TLS needs a certificate: add --tls-cert FILE and --tls-key FILE (tls: in the file), "+
				"which are those of the API, too, or in the file tls: {cert: FILE, key: FILE} beside the address"))
		}
	}
	r.checkReach(l)
}
