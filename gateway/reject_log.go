package gateway

import (
	"log/slog"
	"net/netip"
	"strings"
)

// The reasons why devices are refused, as they are logged. A device is not told which of the first
// two it is.
const (
	notListed  = "it is not in the devices file"
	wrongToken = "wrong or missing token"
	wrongProof = "wrong proof"
	registers  = "it asks for a token by registering, and must know its own"
	otherName  = "its certificate is that of another device"
	otherUser  = "it says the id of a device, and has not proved to be that"
	sharedLine = "it says hello on the connection of another device, which is closed"
	isRevoked  = "its token or certificate was revoked"
	noName     = "its certificate names no device"
	mistaken   = "its message has a mistake"
	noLogin    = "its login is refused"
)

// refusal is what is logged of a device that was refused. It never holds a token.
type refusal struct {
	id          string // clipped; "" if it has not said it
	certificate string // the name that a certificate has proved; "" if none has
	address     netip.Addr
	protocol    string
	reason      string
	why         string // more about the reason; "" if there is no more
	times       uint64 // that this was the reason
}

// tellRefused logs that a device was refused. It does not keep id.
func (t *conversation) tellRefused(x *exchange, id, reason, why string) {
	r := refusal{id: strings.Clone(clipped(id)), address: x.address(), protocol: t.protocol(x.listener), reason: reason, why: why}
	if t.certified() {
		r.certificate = t.details.name
	}
	x.gateway.tell(r)
}

// tellMistake logs what is wrong with a message that was to open a session.
func (t *conversation) tellMistake(x *exchange) {
	m := &x.message
	x.gateway.tell(refusal{
		id: strings.Clone(clipped(string(m.ID))), address: x.address(), protocol: t.protocol(x.listener), reason: mistaken, why: m.Err.Error(),
	})
}

// tell logs a refusal: the 1st, 2nd, 4th, 8th … for one reason as a warning, the others at debug
// level.
func (g *Gateway) tell(r refusal) {
	if (r.reason == wrongToken || r.reason == wrongProof || r.reason == registers) && !g.config.Guard.Knows(r.id) {
		r.reason = notListed
	}
	r.times = g.failures.reasons.count(r.reason)
	log := g.log.Debug
	if r.times&(r.times-1) == 0 {
		log = g.log.Warn
	}
	log("a device was refused", "", r)
}

// LogValue implements [slog.LogValuer], so that the attributes are put together only if they are
// logged.
func (r refusal) LogValue() slog.Value {
	all := []slog.Attr{
		slog.String("device", r.id), slog.Any("address", r.address), slog.String("protocol", r.protocol), slog.String("reason", r.reason),
		slog.Uint64("times", r.times), slog.String("help", r.help()),
	}
	if r.why != "" {
		all = append(all, slog.String("why", r.why))
	}
	if r.certificate != "" {
		all = append(all, slog.String("certificate", r.certificate))
	}
	return slog.GroupValue(all...)
}

// help returns what an operator can do.
func (r refusal) help() string {
	switch r.reason {
	case notListed:
		return "add it to the devices file, if it is one of yours"
	case otherName:
		return "the name on the certificate must be the device's id; that of jt808 has no zeros on the left"
	case otherUser:
		return "give the client an id of its own, or the secret of the device"
	case sharedLine:
		return "give each device a connection of its own; what follows on a shared one could be of either"
	case mistaken:
		return "correct the settings of the device"
	case noLogin:
		return "compare the user name and password in the client with the users file, its token with the devices file, its topics with the rules"
	case noName:
		return "give it one name that is the device's id, or choose another kind with the listener's identity"
	default:
		return "compare the token in the device with the one that is configured here"
	}
}
