package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/guard"
)

// Guard decides which devices are admitted. Its methods are called by the event loops: they are
// safe for concurrent use and return at once. They use no files and sockets, but leave that to other
// goroutines: an event loop may have a table of descriptors of its own, see [Config].MaxConnections.
type Guard interface {
	// Admit reports whether a device is admitted with a token, which is nil if it showed none.
	Admit(id string, token []byte) bool
	// Knows reports whether a device is admitted whose id a certificate has proved.
	Knows(id string) bool
	// Lists reports whether the device has a secret of its own, which it does not share with others. Then nothing but
	// that, or a certificate, proves that somebody is the device.
	Lists(id string) bool
	// Prove reports whether proof is the HMAC-SHA256 (RFC 2104) of nonce under the device's secret.
	Prove(id string, nonce, proof []byte) bool
	// Issue returns the token for a device that registers, with which it will be admitted; ok is
	// false if it will not be. Showing that token proves nothing: whoever registers with an id gets
	// it.
	Issue(id string) (token []byte, ok bool)
	// Guessable reports whether the device's secret may have fewer than 128 bits, so that it could
	// be found by trying. Then wrong tokens from an address keep the device out from there for a
	// while, even with the right one. It is false for a device that needs no secret.
	Guessable(id string) bool
	// Revision returns a number that changes when what the device has to show does, or when the
	// device is no longer admitted. Then its connection is closed.
	Revision(id string) uint32
	// Generation returns a number that changes when any Revision may have.
	Generation() uint64
}

// Password returns a guard that admits every device with one shared secret; an empty one admits every device.
func Password(secret string) Guard { return guard.Password(secret) }

// admit returns why a device is not admitted; nil if it is.
func (t *conversation) admit(x *exchange, id string, token []byte) *codec.Error {
	if x.admitted {
		return t.duplicate(x, id)
	}
	return t.vet(x, id, func() bool { return x.gateway.config.Guard.Admit(id, token) }, len(token) > 0, wrongToken)
}

// vet returns why a device is not admitted; nil if it is. right reports whether what the device has
// shown suffices. secret is whether that was meant to be a secret: attempts without a token are not
// counted. A verified certificate takes precedence over both. A device that shows the right secret
// is admitted however many wrong ones came from its address, unless the secret can be guessed.
func (t *conversation) vet(x *exchange, id string, right func() bool, secret bool, wrong string) *codec.Error {
	g := x.gateway
	t.revision = g.config.Guard.Revision(t.credential(id)) // first: what is revoked from now on is noticed
	if err := t.named(x, id); err != nil {
		return err
	}
	switch {
	case t.certified() && !g.config.Guard.Knows(id):
		return t.turnedAway(x, id, notListed, "the device may not come in")
	case t.certified():
	case secret && !t.established && !g.failures.allow(x.readAt, x.address(), id) && g.config.Guard.Guessable(id):
		g.counts.throttled.Add(1)
		g.warnLockout(x, id)
		return tooManyGuesses()
	case !right():
		if secret {
			g.failures.fail(x.readAt, x.address(), id)
		}
		return t.turnedAway(x, id, wrong, wrong+"; in the line protocol: HELLO <id> <token> ttl=60s")
	case !t.established && t.unverified(x) && g.registry.Operator().Verified(id):
		return notReplaced()
	}
	return t.duplicate(x, id)
}

func tooManyGuesses() *codec.Error {
	return &codec.Error{Code: codec.Unauthorized, Text: "too many wrong tokens; try again in two minutes"}
}

// warnLockout warns of a device that is refused without a look at its token, the 1st, 2nd, 4th, 8th
// … time for an address.
func (g *Gateway) warnLockout(x *exchange, id string) {
	if n, due := g.failures.lockout(x.readAt, x.address()); due {
		g.log.Warn("a device is locked out because of wrong tokens for it or from its address",
			"device", strings.Clone(clipped(id)), "address", x.address().String(), "times", n,
			"help", "the lockout ends two minutes after the last wrong token; tokens of at least 128 random bits, as holter devices token "+
				"makes them, are exempt")
	}
}

// certified reports whether a certificate has proved who the device is.
func (t *conversation) certified() bool { return t.details != nil && t.details.name != "" }

// credential returns the id whose line in the devices file lets the device in.
func (t *conversation) credential(id string) string {
	if t.certified() {
		return t.details.name
	}
	return id
}

// vetUser returns why a device is not admitted although its codec has admitted a user with this id; nil if it is. The user may have
// another name.
func (t *conversation) vetUser(x *exchange, id string, a *codec.Admission) *codec.Error {
	g := x.gateway
	switch {
	case t.certified() && !g.config.Guard.Knows(t.details.name):
		return t.turnedAway(x, id, notListed, "the device may not come in")
	case x.message.Guest:
		return nil
	case t.certified() && !a.Bound:
		if err := t.named(x, id); err != nil {
			return err
		}
	}
	if a.User != id && g.config.Guard.Lists(id) {
		return t.turnedAway(x, id, otherUser, "the id is that of a device with a secret of its own; show that as password, and the id as user name")
	}
	if a.User != id && g.registry.Operator().Verified(id) && !g.codecDecides(id) {
		return notReplaced()
	}
	return t.duplicate(x, id)
}

// codecDecides reports whether a device is connected by a codec that admits its devices by itself. It decides who may replace them, too.
func (g *Gateway) codecDecides(id string) bool {
	peer, _ := g.registry.Peer(id)
	c, ok := peer.(*connection)
	if !ok {
		return false
	}
	_, ok = c.codec.(codec.Authenticator)
	return ok
}

// notReplaced is what a connection is told that has proved nothing, of a device that is connected and has.
func notReplaced() *codec.Error {
	return &codec.Error{Code: codec.Duplicate, Text: "the device is connected, and has proved who it is; a connection that has not does not replace it"}
}

// named compares the id with the name that a certificate has proved.
func (t *conversation) named(x *exchange, id string) *codec.Error {
	if t.certified() && t.details.name != id {
		return t.turnedAway(x, id, otherName, fmt.Sprintf("your certificate is that of %q", t.details.name))
	}
	return nil
}

// turnedAway returns what a device is told that is not admitted. The reason is for the log.
func (t *conversation) turnedAway(x *exchange, id, reason, text string) *codec.Error {
	x.gateway.counts.unauthorized.Add(1)
	t.tellRefused(x, id, reason, "")
	return &codec.Error{Code: codec.Unauthorized, Text: text}
}

// duplicate refuses a device whose id is contested, and a datagram that proves nothing if the
// device has a connection.
func (t *conversation) duplicate(x *exchange, id string) *codec.Error {
	g := x.gateway
	forged := x.udpSession != nil && !x.udpSession.provenLocked() // or may be
	if t.established || !forged && !g.duplicateIDs.contested(x.readAt, id) || !g.held(id) {
		return nil
	}
	if forged { // what anybody can send does not make duplicateIDs of a device, which would keep itself out then
		return &codec.Error{Code: codec.Duplicate, Text: "the device is connected; a datagram without a valid token does not replace its connection"}
	}
	g.counts.duplicates.Add(1)
	if holder, first := g.duplicateIDs.refused(x.readAt, id); first {
		g.warnDuplicateID(strings.Clone(id), holder, x.address())
	}
	return &codec.Error{Code: codec.Duplicate, Text: "two connections keep claiming this id; the one that is connected stays"}
}

// held reports whether a device has a connection that is alive: it was heard in the first half of
// its timeout, and within longHold. A device that comes back because its old connection is dead is
// admitted in time, however often it came. Datagrams, which may be forged, keep no connection out.
func (g *Gateway) held(id string) bool {
	peer, _ := g.registry.Peer(id)
	if _, packets := peer.(*udpSession); packets {
		return false
	}
	v, err := g.registry.Device(id)
	return err == nil && v.Connected && v.HeardSilence < min(v.Policy.Timeout/2, longHold)
}

// warnDuplicateID warns of two connections that claim one id: of the first 16 such ids, and then of
// the 32nd, 64th, 128th …
func (g *Gateway) warnDuplicateID(id string, holder, other netip.Addr) {
	if n := g.duplicateIDs.told.Add(1); n <= 16 || n&(n-1) == 0 {
		g.log.Warn("two connections keep claiming one device id; the one that is connected stays, the other is refused",
			"device", id, "connected", holder.String(), "refused", other.String(), "devices_so_far", n,
			"help", "give each device an id of its own; if no other device uses this id, the device reconnects too often")
	}
}

// register gives a token to a device that asks for one.
func (t *conversation) register(x *exchange) {
	id := string(x.message.ID)
	if x.outcome.Err = t.named(x, id); x.outcome.Err != nil {
		return
	}
	token, ok := x.gateway.config.Guard.Issue(id)
	if !ok {
		x.outcome.Err = t.turnedAway(x, id, registers, "this device needs its own token; registering is not enough")
		return
	}
	x.outcome.Token = token
}

// challenge is a nonce with which a device is to prove that it knows its secret, and the hello that it
// says with that.
type challenge struct {
	nonce []byte
	id    string
	hello codec.Message
}

// challenge asks a device to prove that it knows its secret.
func (t *conversation) challenge(x *exchange) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	nonce := hex.AppendEncode(nil, b[:])
	if t.details == nil {
		t.details = &details{}
	}
	asks := &challenge{nonce: nonce, id: string(x.message.ID), hello: x.message}
	asks.hello.ID, asks.hello.Token, asks.hello.Text = nil, nil, nil
	t.details.challenge = asks
	x.outcome.Nonce = nonce
}

// proof opens the session of the device that was challenged. A challenge is good for one proof.
func (t *conversation) proof(x *exchange) {
	if t.details == nil || t.details.challenge == nil {
		x.outcome.Err = &codec.Error{Code: codec.HelloFirst, Text: "no challenge is open; in the line protocol: HELLO <id> auth=hmac"}
		return
	}
	asks := t.details.challenge
	t.details.challenge = nil
	right := func() bool { return x.gateway.config.Guard.Prove(asks.id, asks.nonce, x.message.Token) }
	x.outcome.Err = t.vet(x, asks.id, right, true, wrongProof)
	if x.outcome.Err == nil {
		t.open(x, asks.id, &asks.hello, t.unverified(x))
	}
}

const (
	// maxFailures is how many wrong tokens a minute an address may try for one device whose token
	// can be guessed. After that no token for the device is looked at from there until those are
	// forgotten, which takes two minutes at most. Devices that are connected are not affected.
	maxFailures = 60
	// maxFromAddress is how many it may try for all devices. A site, or the customers of a mobile
	// network, may share one address: 30 of those devices may show a wrong token all the time, and
	// the others are still admitted. A token of 40 random bits withstands a thousand years of such
	// guessing.
	maxFromAddress = 30 * maxFailures
	// maxTakeovers is how many times a minute a device may be replaced by another connection with
	// the same id. After that the connection that is open stays, until none has tried for a minute.
	maxTakeovers = 6
	// longHold is how long a silent connection keeps others with its id out, at most.
	longHold = 10 * time.Minute
)
