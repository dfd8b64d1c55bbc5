package server

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// announce logs that the server runs, and shows a person at a terminal what to do next.
func (s *server) announce() {
	what := []any{"http", s.http.Addr().String()}
	what = s.appendPorts(what)
	if len(s.bridges) > 0 {
		what = append(what, "brokers", strings.Join(s.brokerURLs(), ", "))
	}
	if s.ears != nil {
		what = append(what, "ears", linkText(s.ears.Addr()))
	}
	s.log.Info("holter is watching", what...)
	if s.config.Open {
		s.log.Warn("open to everybody who can reach it", "help", "leave --open out; set --token for devices, and make tokens for the API with holter tokens create")
	}
	if terminal.IsTerminal(s.stdout) {
		_, _ = s.stdout.Write([]byte(s.summary()))
	}
}

// brokerURLs returns the URLs of the bridges' brokers.
func (s *server) brokerURLs() (all []string) {
	for _, b := range s.bridges {
		all = append(all, b.View().URL)
	}
	return all
}

// summary lists the addresses of the server, and commands to try.
func (s *server) summary() string {
	var out strings.Builder
	out.WriteString("\n  Holter is watching.\n\n")
	line := func(label, value string) { fmt.Fprintf(&out, "    %-8s  %s\n", label, value) }
	s.portLines(line)
	for i, u := range s.brokerURLs() {
		line("broker", u+" ("+strings.Join(meaningsOf(&s.config.Bridges[i]), ", ")+")")
	}
	if s.ears != nil {
		line("ears", linkText(s.ears.Addr()))
	}
	if s.config.Console != "off" {
		line("console", s.url()+"/")
	}
	line("API", "http"+encryptedS(s.config.TLS)+"://"+s.http.Addr().String()+"/docs")
	line("state", s.store.Place())
	out.WriteString("\n  Try it, in other terminals:\n\n")
	for _, text := range s.tries() {
		out.WriteString("    " + text + "\n")
	}
	out.WriteString("\n")
	return out.String()
}

// url returns the URL at which this machine reaches the API and the console, without a slash at its end.
func (s *server) url() string {
	return APIURL(config.Config{HTTP: s.http.Addr().String(), TLS: s.config.TLS})
}

// encryptedS returns the s of https if there is a certificate.
func encryptedS(files cert.Files) string {
	if files.Cert == "" {
		return ""
	}
	return "s"
}

// meaningsOf names the presets of a bridge, and counts its rules.
func meaningsOf(b *config.Bridge) (all []string) {
	all = slices.Clone(b.Presets)
	if len(b.Rules) > 0 {
		all = append(all, terminal.Plural(len(b.Rules), "rule", "rules"))
	}
	return all
}

// tries returns commands that a person may try.
func (s *server) tries() (all []string) {
	ways := s.ways("127.0.0.1")
	for _, w := range ways {
		if w.Kind != "http" {
			all = append(all, w.Command)
		}
	}
	all = append(all, "curl -N "+s.url()+"/v1/events/stream?after=0")
	if s.plainLine() == nil {
		return append(all, programName()+" devices"+s.apiFlag())
	}
	return append(all, programName()+" explain sensor-1"+s.apiFlag())
}

// ways returns commands that send a first heartbeat. host stands for this machine where a listener is on all of its addresses.
func (s *server) ways(host string) (all []httpapi.Way) {
	if line := s.plainLine(); line != nil {
		host, port := reachable(line, host)
		all = append(all, httpapi.Way{Kind: "line", Command: fmt.Sprintf("printf 'HELLO sensor-1 ttl=10s\\n' | nc %s %s", host, port)})
	}
	if at := s.plainPort(config.ProtocolMQTT); at != nil {
		host, port := reachable(at, host)
		text := "mosquitto_pub -h " + host + " -p " + port + " -i sensor-2 -k 10 -t hello -l"
		if s.config.MQTT.Anonymous == config.AnonymousNever {
			text += " -u NAME -P PASSWORD"
		}
		all = append(all, httpapi.Way{Kind: "mqtt", Command: text})
	}
	at, port := reachable(s.http.Addr(), host)
	return append(all, httpapi.Way{Kind: "http", Command: fmt.Sprintf("curl 'http%s://%s/v1/beat/sensor-3?ttl=10s'", encryptedS(s.config.TLS), net.JoinHostPort(at, port))})
}

// reachable returns the host and port at which a listener is reached: on this machine if it is on all addresses, which host stands for.
func reachable(address net.Addr, here string) (host, port string) {
	host, port, err := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		host = here
	}
	return host, port
}

// programName returns the name by which this program was started.
func programName() string {
	if strings.Contains(os.Args[0], "go-build") { // go run deletes the program
		return "go run ./cmd/holter"
	}
	return os.Args[0]
}

// apiFlag returns the option with which a command finds the API; "" if it needs none.
func (s *server) apiFlag() string {
	if s.http.Addr().String() == httpapi.DefaultAddress {
		return ""
	}
	return " --api " + s.url()
}

// plainLine returns the address of a port with the line protocol over plain TCP where a device needs no
// token of its own; nil if there is none.
func (s *server) plainLine() net.Addr {
	if s.config.DevicesFile != "" {
		return nil
	}
	return s.plainPort(config.ProtocolLine)
}

// plainPort returns the address of a port with a protocol over plain TCP; nil if there is none.
func (s *server) plainPort(protocol string) net.Addr {
	if s.gateway == nil {
		return nil
	}
	for i, l := range s.config.Listen {
		if slices.Contains(l.Protocols, protocol) && l.TLS == nil && !l.Packets {
			return s.gateway.Addrs()[i]
		}
	}
	return nil
}
