package gateway

import (
	"net/netip"
	"strings"
	"sync"
)

// Why devices are refused, as it is logged. They themselves are not told which of the first two it is.
const (
	notListed  = "it is not among the devices that may come in"
	wrongToken = "wrong or missing token"
	wrongProof = "wrong proof"
	throttled  = "too many wrong tokens for it, or from its address"
	registers  = "it asks for a token by registering, and must know its own"
	otherName  = "its certificate is that of another device"
	noName     = "its certificate names no device"
)

// refusal is what is logged of a device that was refused. There is never a token in it.
type refusal struct {
	id          string // clipped; "" if it has not said it
	certificate string // the name that a certificate has proved; "" if none has
	address     netip.Addr
	protocol    string
	reason      string
}

// tellRefused logs that a device was refused. It does not keep id.
func (t *talk) tellRefused(d *desk, id, reason string) {
	r := refusal{id: strings.Clone(clipped(id)), address: d.address(), protocol: t.protocol(d.door), reason: reason}
	if t.certified() {
		r.certificate = t.details.name
	}
	d.gateway.tell(r)
}

// tell logs a refusal: as a warning the 1st, 2nd, 4th, 8th … for a reason, the others for who looks for one device.
func (g *Gateway) tell(r refusal) {
	if (r.reason == wrongToken || r.reason == wrongProof || r.reason == registers) && !g.config.Guard.Knows(r.id) {
		r.reason = notListed
	}
	n := g.failures.reasons.count(r.reason)
	log := g.log.Debug
	if n&(n-1) == 0 {
		log = g.log.Warn
	}
	attributes := []any{"device", r.id, "address", r.address, "protocol", r.protocol, "reason", r.reason, "times", n, "help", r.help()}
	if r.certificate != "" {
		attributes = append(attributes, "certificate", r.certificate)
	}
	log("a device was refused", attributes...)
}

// help says what an operator can do.
func (r refusal) help() string {
	switch r.reason {
	case notListed:
		return "write it into the file of devices, if it is one of them"
	case otherName:
		return "the certificate's common name, else its first DNS name, else its first URI, must be the device's id; that of jt808 has no zeros on the left"
	case noName:
		return "give it a common name, a DNS name or a URI, which is the device's id"
	case throttled:
		return "set the right token in the devices there that were refused before; two minutes after their last wrong one this device can come in"
	default:
		return "compare the token in the device with the one that is configured here"
	}
}

// reasons counts refusals by reason.
type reasons struct {
	mu    sync.Mutex // guards times
	times map[string]uint64
}

// count counts one, and returns how many there are of the reason.
func (r *reasons) count(reason string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times = make(map[string]uint64)
	}
	r.times[reason]++
	return r.times[reason]
}
