package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// typedBridges are the bridges of the command line and the environment.
type typedBridges struct {
	bridges  []Bridge
	all      Bridge // settings of all of them
	first    string // key of the first setting that belongs to a bridge
	password Secret
	report   bool // to the only bridge
	entities bool // of Home Assistant
}

// setter returns what stores a setting, whose key is without bridge.; false if there is no such key.
func (t *typedBridges) setter(key string) (set strictyaml.Setter, ok bool) {
	switch key {
	case "url":
		return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
			b := Bridge{at: d.Place(path, n)}
			strictyaml.Value(&b.URL, parseBrokerURL).Read(d, path, n)
			t.bridges = append(t.bridges, b)
		}}, true
	case "password":
		return strictyaml.Value(&t.password, parsePassword), true
	case "report":
		return strictyaml.Flag(&t.report), true
	case "home_assistant":
		return strictyaml.Flag(&t.entities), true
	}
	t.first = cmp.Or(t.first, "bridge."+key)
	if key == "preset" {
		return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
			name := ""
			strictyaml.Value(&name, ParsePreset).Read(d, path, n)
			t.all.Presets = append(t.all.Presets, name)
		}}, true
	}
	return strictyaml.Find(bridgeFields(&t.all), key)
}

// settle replaces the bridges of the file by those of the command line.
func (t *typedBridges) settle(r *resolver) {
	if len(t.bridges) > 0 {
		r.cfg.Bridges = nil
		for _, b := range t.bridges {
			all := t.all
			all.URL, all.at = b.URL, b.at
			r.cfg.Bridges = append(r.cfg.Bridges, all)
			t.check(r, &all)
		}
	} else if t.first != "" {
		r.fail("goes with --broker URL; for a bridge of the file, write it there, below bridges", t.first)
	}
	for i := range r.cfg.Bridges {
		if b := &r.cfg.Bridges[i]; b.Username != "" && b.PasswordFile == "" {
			b.Secret = t.password
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
	if len(r.cfg.Bridges) == 1 {
		fillBridgeNames(r.cfg.Bridges)
		c.To = r.cfg.Bridges[0].Name
		return
	}
	r.fail(fmt.Sprintf("there are %d brokers; write in a file to which: report: {to: NAME}", len(r.cfg.Bridges)), "bridge.report", "bridge.home_assistant")
}

// checkBridgeTLS compares the files with each other and with the URL.
func checkBridgeTLS(b *Bridge) error {
	scheme, _, _ := strings.Cut(b.URL, "://")
	switch {
	case b.Files == TLSFiles{} || b.URL == "":
		return nil
	case !encrypted(scheme):
		return fmt.Errorf("%s is not encrypted; write mqtts:// or wss://", b.URL)
	case (b.Files.Cert == "") != (b.Files.Key == ""):
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

// checkReport rejects a report to a broker or bridge that does not exist.
func (r *resolver) checkReport() {
	to, known := r.cfg.Report.To, []string{}
	if slices.ContainsFunc(r.cfg.Listen, Listener.speaksMQTT) {
		known = append(known, ReportToBroker)
	}
	for i := range r.cfg.Bridges {
		known = append(known, r.cfg.Bridges[i].Name)
	}
	switch {
	case to == "" || slices.Contains(known, to) || len(r.errs) > 0:
	case to == ReportToBroker:
		r.fail("there is no broker inside the program here; name a bridge", "report.to")
	default:
		r.fail(fmt.Sprintf("there is no bridge %s%s", strictyaml.Quote(to), strictyaml.DidYouMean(to, known)), "report.to")
	}
}
