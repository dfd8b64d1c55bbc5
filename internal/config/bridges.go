package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// typedBridges are the bridges of the command line and the environment.
type typedBridges struct {
	bridges  []Bridge
	all      Bridge // settings of all of them
	first    place  // of the first setting that belongs to a bridge
	password Secret
	report   bool // to the only bridge
	entities bool // of Home Assistant
	reportAt place
}

// apply stores a setting.
func (t *typedBridges) apply(s Setting) error {
	switch s.Key {
	case "mqtt.url":
		b := Bridge{at: strictyaml.Outside(s.Origin)}
		err := assign(&b.URL, s.Value, parseBrokerURL)
		t.bridges = append(t.bridges, b)
		return err
	case "mqtt.password":
		t.password = NewSecret(s.Value)
		return nil
	case "mqtt.report":
		t.reportAt = s.at
		return assign(&t.report, s.Value, parseSwitch)
	case "mqtt.home_assistant":
		t.reportAt = s.at
		return assign(&t.entities, s.Value, parseSwitch)
	}
	if t.first == nil {
		t.first = s.at
	}
	return t.applyToAll(s)
}

func (t *typedBridges) applyToAll(s Setting) error {
	a := &t.all
	switch s.Key {
	case "mqtt.preset":
		p := Preset{at: strictyaml.Outside(s.Origin)}
		err := assign(&p.Name, s.Value, parseName)
		a.Presets = append(a.Presets, p)
		return err
	case "mqtt.username":
		return assign(&a.Username, s.Value, parseUsername)
	case "mqtt.password_file":
		return assign(&a.PasswordFile, s.Value, parseFile)
	case "mqtt.ca":
		return assign(&a.TLS.CA, s.Value, parseFile)
	case "mqtt.cert":
		return assign(&a.TLS.Cert, s.Value, parseFile)
	case "mqtt.key":
		return assign(&a.TLS.Key, s.Value, parseFile)
	case "mqtt.share":
		return assign(&a.Share, s.Value, parseShareName)
	}
	return fmt.Errorf("there is no setting %q", s.Key)
}

// settle replaces the bridges of the file by those of the command line.
func (t *typedBridges) settle(r *resolver) {
	if len(t.bridges) > 0 {
		r.cfg.Bridges = nil
		for _, b := range t.bridges {
			all := t.all
			all.URL, all.at = b.URL, b.at
			all.Presets = slices.Clone(t.all.Presets)
			r.cfg.Bridges = append(r.cfg.Bridges, all)
			t.check(r, &all)
		}
	} else if t.first != nil && !r.broken {
		r.errs = append(r.errs, t.first("goes with --broker URL; for a bridge of the file, write it there, below bridges"))
	}
	for i := range r.cfg.Bridges {
		if b := &r.cfg.Bridges[i]; b.Username != "" && b.PasswordFile == "" {
			b.Password = t.password
		}
	}
	t.settleReport(r)
}

// check rejects mistakes in a bridge of the command line.
func (t *typedBridges) check(r *resolver, b *Bridge) {
	if b.URL == "" {
		return // its mistake is known
	}
	if len(b.Presets) == 0 {
		r.errs = append(r.errs, b.Mistake("nothing says what the messages mean: add --preset NAME (--list-presets shows them), "+
			"or write the bridge into a file, with rules"))
	}
	if err := checkBridgeTLS(b); err != nil {
		r.errs = append(r.errs, b.Mistake(err.Error()))
	}
	if b.PasswordFile != "" && b.Username == "" {
		r.errs = append(r.errs, b.Mistake("--password-file goes with --username"))
	}
}

// settleReport applies the switches --report and --home-assistant.
func (t *typedBridges) settleReport(r *resolver) {
	c := &r.cfg.Report
	if t.entities {
		c.HomeAssistant = true
	}
	if !t.report && !t.entities || c.To != "" {
		return
	}
	r.reportAt = t.reportAt
	if len(r.cfg.Bridges) == 1 {
		fillBridgeNames(r.cfg.Bridges)
		c.To = r.cfg.Bridges[0].Name
		return
	}
	if !r.broken {
		r.errs = append(r.errs, t.reportAt(fmt.Sprintf("there are %d brokers; write in a file to which: report: {to: NAME}", len(r.cfg.Bridges))))
	}
}

// checkBridgeTLS compares the files with each other and with the URL.
func checkBridgeTLS(b *Bridge) error {
	scheme, _, _ := strings.Cut(b.URL, "://")
	switch {
	case b.TLS == BridgeTLS{} || b.URL == "":
		return nil
	case !encrypted(scheme):
		return fmt.Errorf("%s is not encrypted; write mqtts:// or wss://", b.URL)
	case (b.TLS.Cert == "") != (b.TLS.Key == ""):
		return errors.New("a certificate needs its key: give both cert and key, or neither")
	}
	return nil
}

// fillBridgeNames names the bridges that have no name after their host, with
// its port where that is taken.
func fillBridgeNames(all []Bridge) {
	taken := map[string]bool{}
	for i := range all {
		taken[all[i].Name] = true
	}
	for i := range all {
		b := &all[i]
		u, err := url.Parse(b.URL)
		if b.Name != "" || err != nil {
			continue
		}
		b.Name = "mqtt:" + strings.TrimSuffix(u.Host, ":"+u.Port())
		if taken[b.Name] {
			b.Name = "mqtt:" + u.Host
		}
		taken[b.Name] = true
	}
}

// checkBridges rejects two of one name, and a monitor without one.
func (r *resolver) checkBridges() {
	fillBridgeNames(r.cfg.Bridges)
	names := map[string]bool{}
	well := len(r.errs) == 0
	for i := range r.cfg.Bridges {
		b := &r.cfg.Bridges[i]
		if names[b.Name] && well {
			r.errs = append(r.errs, b.Mistake(fmt.Sprintf("a bridge before has the name %s, too; give each a name of its own", strictyaml.Quote(b.Name))))
		}
		names[b.Name] = true
	}
	if r.monitor && len(r.cfg.Bridges) == 0 && !r.broken && len(r.errs) == 0 {
		r.errs = append(r.errs, errors.New("there is no broker to watch: add --broker URL and --preset NAME, or --config FILE with bridges in it"))
	}
}

// checkBroker rejects a broker that other machines reach without users or --open, or that accepts
// nobody, and fills in Anonymous.
func (r *resolver) checkBroker() {
	b, c := &r.cfg.Broker, &r.cfg
	if b.Listen == brokerOff {
		b.Listen = ""
	}
	fail := func(at place, message string) {
		if !r.broken {
			r.errs = append(r.errs, at(message))
		}
	}
	switch {
	case r.monitor || b.Listen == "":
	case b.Anonymous == AnonymousAnyone && !c.Open && !r.unsure:
		fail(r.anonymousAt, "anyone needs --open (or open: true), which admits every client")
	case b.Anonymous == AnonymousNever && b.Users == "":
		fail(r.anonymousAt, "no client could log in: add users: FILE; holter password makes its lines")
	case !Loopback(b.Listen) && b.Users == "" && !c.Open && !r.unsure:
		fail(r.brokerAt, "other machines reach "+b.Listen+", and no client has to log in: "+
			"add users: FILE below broker (holter password makes its lines), or --open to admit every client")
	}
	if b.Anonymous == "" && !r.monitor {
		b.Anonymous = AnonymousLoopback
		if c.Open && b.Users == "" {
			b.Anonymous = AnonymousAnyone
		}
	}
}

// checkReport rejects a report to a broker or bridge that does not exist.
func (r *resolver) checkReport() {
	c := &r.cfg.Report
	known := []string{}
	if r.cfg.Broker.Listen != "" {
		known = append(known, ReportToBroker)
	}
	for i := range r.cfg.Bridges {
		known = append(known, r.cfg.Bridges[i].Name)
	}
	if c.To == "" || slices.Contains(known, c.To) || r.broken || len(r.errs) > 0 {
		return
	}
	if c.To == ReportToBroker {
		r.errs = append(r.errs, r.reportAt("there is no broker inside the program here; name a bridge"))
		return
	}
	r.errs = append(r.errs, r.reportAt(fmt.Sprintf("there is no bridge %s%s", strictyaml.Quote(c.To), strictyaml.DidYouMean(c.To, known))))
}
