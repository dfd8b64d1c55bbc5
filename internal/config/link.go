package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// Link is how ears and the judge reach each other.
type Link struct {
	Listen string     // where a judge waits for ears: HOST:PORT or unix:PATH; empty: nowhere
	TLS    cert.Files // Cert, Key and Clients, or none: both sides show a certificate that Clients sign
}

// Drain is how an ear, or a server, ends in order. The zero Drain, the default of a server, closes all
// connections at once.
type Drain struct {
	Delay time.Duration // from when it is not ready until it closes connections
	Limit time.Duration // within which all are closed
}

func drainFields(to *Drain) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("delay", strictyaml.SpanOrOff(&to.Delay, time.Millisecond, time.Hour), "10s for an ear, none for a server",
			"when an ear [ends in order](../run/cluster.md#when-an-ear-ends), or a [server](../run/deploy.md#when-a-server-ends): time from when its `/readyz` says no until it closes connections. "+
				"Set it to what the load balancer takes to lead devices elsewhere, its check interval times the failures that it waits for"),
		strictyaml.Key("limit", strictyaml.Span(&to.Limit, 100*time.Millisecond, 24*time.Hour), "1m for an ear; a server closes all at once",
			"time within which it closes them then, a few at a time"),
	}
}

// unixPrefix stands before the path of a Unix socket.
const unixPrefix = "unix:"

// UnixPath returns the path of a Unix socket.
func UnixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixPrefix) }

func linkFields(l *Link) []strictyaml.Field {
	tls := append(certificate(&l.TLS, "none", "the certificate that this side shows. That of a server names the host of the ears' `judges`"),
		strictyaml.Key("ca", strictyaml.Value(&l.TLS.Clients, parseFile), "none",
			"PEM file: the authorities that sign the certificates of the other side. Whoever has a certificate of these can speak for every device: use an authority of its own"),
		strictyaml.Key("crl", strictyaml.Value(&l.TLS.Revoked, parseFile), "none", "PEM file: lists of revoked certificates, each signed by one of these authorities"))
	return append([]strictyaml.Field{
		strictyaml.Key("listen", strictyaml.Value(&l.Listen, parseLinkAddress), "no ears",
			"`HOST:PORT` or `unix:PATH`, where ears connect. Only the owner can use the Unix socket (mode 0600)"),
	}, strictyaml.Below("tls", tls)...)
}

func judgesSetting(c *Config) setting {
	return rebuilt("judges", strictyaml.List(&c.Judges, "write where a judge is", parseJudge), "none",
		"list of `HOST:PORT` or `unix:PATH`: all servers that may be the judge, required by `holter ear`. They are tried in turn")
}

// parseLinkAddress checks HOST:PORT or unix:PATH, and returns it as it is.
func parseLinkAddress(text string) (string, error) {
	path, ok := UnixPath(text)
	if !ok {
		return parseAddress(text)
	}
	const most = 100 // bytes; of the names of sockets that systems have, the shortest has room for 104
	if path == "" || len(path) > most || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%s is not a Unix socket; write unix:PATH, with a path of 1 to %d bytes", strictyaml.Quote(text), most)
	}
	return text, nil
}

// parseJudge checks where an ear reaches a judge.
func parseJudge(text string) (string, error) {
	address, err := parseLinkAddress(text)
	if host, port, e := net.SplitHostPort(address); err == nil && !strings.HasPrefix(text, unixPrefix) && (e != nil || host == "" || port == "0") {
		return "", fmt.Errorf("%s does not say where the judge is; write HOST:PORT, as in judge.example:7710", strictyaml.Quote(text))
	}
	return address, err
}

// local reports whether only this machine reaches the address of a link.
func local(address string) bool { return strings.HasPrefix(address, unixPrefix) || Loopback(address) }

// checkLink rejects a link that others could read or join, half of its certificates, and judges
// of one that is no ear.
func (r *resolver) checkLink() {
	l := &r.cfg.Link
	if d := r.cfg.file; d != nil && r.monitor {
		if at, found := d.At("drain"); found {
			r.errs = append(r.errs, at.Mistake("no device connects to a monitor, so it has nothing to drain; remove it"))
		}
	}
	if !r.ear && len(r.cfg.Judges) > 0 {
		r.fail(`only an ear has judges, see "holter ear"; remove them`, "judges")
	}
	secured := l.TLS.Cert != ""
	if secured != (l.TLS.Key != "") || secured != (l.TLS.Clients != "") {
		r.fail("both sides of a link show certificates: give --link-cert, --link-key and --link-ca, or none of them", "link.tls", "link")
		return
	}
	if !secured && l.TLS.Revoked != "" {
		r.fail("there are no certificates that could be revoked: add --link-cert, --link-key and --link-ca, or remove it", "link.tls.crl")
	}
	addresses, key := []string{l.Listen}, "link.listen"
	if r.ear {
		addresses, key = r.cfg.Judges, "judges"
	}
	for _, a := range addresses {
		_, unix := UnixPath(a)
		switch {
		case a == "" && secured:
			r.fail("nothing listens for ears: add --link HOST:PORT, or remove the certificate", "link.tls", "link")
		case a != "" && !secured && !local(a):
			r.fail(a+" is reached over the network, where others could read what devices say, and say it for them: "+
				"add --link-cert FILE, --link-key FILE and --link-ca FILE, or use an address of this machine, such as 127.0.0.1:7710 or unix:PATH", key)
		case unix && secured:
			r.fail(a+" is a Unix socket, over which there is no TLS: remove the certificate, or use HOST:PORT", key)
		}
	}
}

// ofEars are the keys of the file that an ear has, too. Of link it has some.
func ofEars() []string {
	return []string{"listen", "http", "tls", "data", "node", "open", "token", "devices_file", "reuse_port", "log", "gateway", "mqtt", "link", "judges", "drain"}
}

// notOfEars is the key that an ear has not in a section of which it has the others.
const notOfEars = "link.listen"

// checkEar rejects what only a judge can have, and an ear without judges.
func (r *resolver) checkEar() {
	if !r.ear {
		return
	}
	if d := r.cfg.file; d != nil {
		keys := []string{notOfEars}
		for _, s := range settings(&r.cfg) {
			if section, _, _ := strings.Cut(s.Key, "."); !slices.Contains(ofEars(), section) && !slices.Contains(keys, section) {
				keys = append(keys, section)
			}
		}
		for _, key := range keys {
			if at, found := d.At(key); found {
				r.errs = append(r.errs, at.Mistake("an ear does not have this, its judge has; remove it here"))
			}
		}
	}
	for i := range r.cfg.Listen {
		if l := &r.cfg.Listen[i]; l.MaxDevices > 0 {
			r.errs = append(r.errs, l.Mistake("the ports of an ear have no max_devices; remove it here, the judge's max_devices counts all devices"))
		}
	}
	if len(r.cfg.Judges) == 0 && !r.broken && len(r.errs) == 0 {
		r.errs = append(r.errs, errors.New("there is no judge: add --judge HOST:PORT, or unix:PATH, where a server listens with --link (judges: in the file)"))
	}
}
