package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/cert"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Broker is the MQTT broker inside holter serve.
type Broker struct {
	Listen     string     // HOST:PORT; empty is no broker
	Users      string     // file of names and hashed passwords; unset means there are none
	Anonymous  Anonymous  // who needs no name and password; never empty after Resolve
	MaxClients int        // at once
	MaxPacket  int        // bytes
	TLS        cert.Files // unset means plain TCP
}

// Anonymous says which MQTT clients need no name and password.
type Anonymous string

// Who needs no name and password.
const (
	AnonymousLoopback Anonymous = "loopback" // clients on this machine
	AnonymousNever    Anonymous = "never"    // nobody
	AnonymousAnyone   Anonymous = "anyone"   // everybody
)

// Bridge is the connection to an MQTT broker elsewhere, and what its messages mean.
type Bridge struct {
	Name         string    // unique; never empty after Resolve
	URL          string    // SCHEME://HOST:PORT, for ws and wss with a path; no name or password
	Username     string    // unset means none
	PasswordFile string    // unset means Password
	Password     Secret    // from the environment
	ClientID     string    // unset is chosen
	TLS          BridgeTLS // only with the schemes that are encrypted
	Presets      []Preset  // these and Rules are not both empty
	Rules        []Rule
	Share        string        // group of a shared subscription; unset means none
	QoS          byte          // the least to subscribe with, 0 or 1
	Watermark    string        // topic of the message to itself, or WatermarkOff
	Queue        int           // messages that may wait
	MaxPayload   int           // bytes of one message
	ReconnectMax time.Duration // longest pause between two attempts to connect

	at spot
}

// WatermarkOff instead of a topic says that nothing is published to oneself.
const WatermarkOff = "off"

// Mistake returns the error for a mistake in a bridge, with the place where it was written.
func (b *Bridge) Mistake(message string) error { return b.at.Mistake(message) }

// BridgeTLS says whom to trust, and who one is.
type BridgeTLS struct {
	CA         string // file in PEM; unset means those of the machine
	Cert       string // file in PEM: the certificate that the broker is shown
	Key        string // file in PEM
	ServerName string // expected in the broker's certificate; unset means the host of the URL
}

// Preset is the name of a set of rules; whether there is one, the caller knows.
type Preset struct {
	Name string

	at spot
}

// NewPreset returns the preset that an option or a variable names.
func NewPreset(name, origin string) Preset { return Preset{Name: name, at: strictyaml.Outside(origin)} }

// Unknown returns the error for a preset that is not among the known ones.
func (p *Preset) Unknown(known []string) error {
	return p.at.Mistake(fmt.Sprintf("there is no preset %s%s (there are: %s)",
		strictyaml.Quote(p.Name), strictyaml.DidYouMean(p.Name, known), strings.Join(slices.Sorted(slices.Values(known)), ", ")))
}

// Rule says what the messages of some topics mean, and where it was written. Package convention checks
// its patterns and templates.
type Rule struct {
	convention.Rule

	at    spots
	cases []spots // of Cases
}

// Mistake returns the error for a mistake in a field of a rule, named as in the file, or in one of its
// cases with that index, which is negative for none. It names the place where the field was written,
// or where it is missing.
func (r *Rule) Mistake(field string, index int, message string) error {
	at := r.at
	if index >= 0 && index < len(r.cases) {
		at = r.cases[index]
	}
	return at.of(field).Mistake(message)
}

// Report says where verdicts are published.
type Report struct {
	To              string // ReportToBroker or the name of a bridge; unset means nowhere
	Prefix          string // of the topics
	HomeAssistant   bool   // as entities of Home Assistant, too
	DiscoveryPrefix string // of its topics
}

// ReportToBroker says that verdicts go to the broker inside holter serve.
const ReportToBroker = "broker"
