package config

import (
	"time"

	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// MQTT is the broker inside holter serve and holter ear, whose clients connect to the ports of
// Config.Listen that speak ProtocolMQTT.
type MQTT struct {
	Users            string        // file of names and hashed passwords; unset means there are none
	Rules            string        // file of what clients may do; unset means everything
	Anonymous        Anonymous     // who need not prove who it is; never empty after Resolve
	MaxPacket        int           // bytes
	SessionExpiry    time.Duration // longest time for which the session of a client is kept that is away
	MaxQueue         int           // messages that a session holds
	MaxRetained      int           // messages
	MaxRetainedBytes int           // the same
	Routed           bool          // messages reach the clients of the judge and of all its ears; else those of this process
}

// Anonymous says which MQTT clients need not prove who they are.
type Anonymous string

// Who need not prove who it is.
const (
	AnonymousLoopback Anonymous = "loopback" // clients on this machine
	AnonymousNever    Anonymous = "never"    // nobody
	AnonymousAnyone   Anonymous = "anyone"   // everybody
)

// Bridge is the connection to an MQTT broker elsewhere, and what its messages mean.
type Bridge struct {
	// Config is without TLS, Password, Conventions, Ignore and what no file can set. Its URL is
	// SCHEME://HOST:PORT, for ws and wss with a path; its Name is unique, and never empty after Resolve.
	mqttbridge.Config

	PasswordFile string   // unset means Secret
	Secret       Secret   // the password, from the environment
	Files        TLSFiles // only with the schemes that are encrypted
	Presets      []string // these and Rules are not both empty
	Rules        []convention.Rule

	at spot
}

// Mistake returns the error for a mistake in a bridge, with the place where it was written.
func (b *Bridge) Mistake(message string) error { return b.at.Mistake(message) }

// TLSFiles say whom to trust, and who one is.
type TLSFiles struct {
	CA         string // file in PEM; unset means those of the machine
	Cert       string // file in PEM: the certificate that the broker is shown
	Key        string // file in PEM
	ServerName string // expected in the broker's certificate; unset means the host of the URL
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
