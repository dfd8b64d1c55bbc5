package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

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

// drainFields lists the keys of it.
func drainFields(d *strictyaml.Reader, to *Drain) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "delay", Set: strictyaml.Value(d, &to.Delay, span{min: time.Millisecond, max: time.Hour, off: true}.parse)},
		{Key: "limit", Set: strictyaml.Value(d, &to.Limit, span{min: 100 * time.Millisecond, max: 24 * time.Hour}.parse)},
	}
}

// unixPrefix stands before the path of a Unix socket.
const unixPrefix = "unix:"

// UnixPath returns the path of a Unix socket.
func UnixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixPrefix) }

// linkFields lists the keys of the link.
func linkFields(d *strictyaml.Reader, l *Link) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "listen", Set: strictyaml.Value(d, &l.Listen, parseLinkAddress)},
		{Key: "tls", Fields: append(certificate(d, &l.TLS),
			strictyaml.Field{Key: "ca", Set: strictyaml.Value(d, &l.TLS.Clients, parseFile)},
			strictyaml.Field{Key: "crl", Set: strictyaml.Value(d, &l.TLS.Revoked, parseFile)})},
	}
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

// judge returns what adds a judge that was given as a setting. The first of these replaces the file's list.
func (r *resolver) judge(d *strictyaml.Reader) strictyaml.Setter {
	if !r.otherJudges {
		r.otherJudges, r.cfg.Judges = true, nil
	}
	return func(path string, n ast.Node) {
		var address string
		if strictyaml.Value(d, &address, parseJudge)(path, n); address != "" {
			r.cfg.Judges = append(r.cfg.Judges, address)
		}
	}
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
		for _, f := range r.root(d) {
			if !slices.Contains(ofEars(), f.Key) {
				keys = append(keys, f.Key)
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
