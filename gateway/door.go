package gateway

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/ear"
	"github.com/holter-iot/holter/liveness"
)

const (
	// lookAgain is when to ask again whether those who waited at the doors are in, and enterWithin how long that is waited for: a flood of
	// connections holds the listening clock up for no longer.
	lookAgain   = 2 * time.Millisecond
	enterWithin = 30 * time.Second
	// nextKnock is how long after one knock that is still waited for the next may follow.
	nextKnock = 50 * time.Millisecond
)

// door is a listener, what is spoken at it, and how many have come in through it. A connection is settled once it is in an event loop, on the
// way to a handshake, or refused.
type door struct {
	Listener

	tcp      *net.TCPListener
	listener *ear.Listener // the same one
	source   *liveness.Source
}

// knocks are those who waited at doors, in the order of the instants at which they did. One goroutine uses them.
type knocks struct {
	doors []*door
	first []knock // those that are waited for
}

// knock is an instant, and who waited at the doors then.
type knock struct {
	at       time.Time
	listened time.Duration // the listening time at that instant
	asked    []uint64      // of each door
}

// note notes who waits at the doors, unless it was done a moment ago and those are waited for still.
func (ks *knocks) note(now time.Time, listened time.Duration) {
	if n := len(ks.first); n > 0 && now.Sub(ks.first[n-1].at) < nextKnock {
		return
	}
	k := knock{at: now, listened: listened}
	for _, d := range ks.doors {
		k.asked = append(k.asked, d.listener.Asked())
	}
	ks.first = append(ks.first, k)
}

// entered forgets those instants of whom all are in, or whom it is too late to wait for, and returns the listening time of the last of
// them; it is negative if there is none.
func (ks *knocks) entered(now time.Time) time.Duration {
	listened := time.Duration(-1)
	for len(ks.first) > 0 && (now.Sub(ks.first[0].at) >= enterWithin || ks.in(ks.first[0])) {
		listened, ks.first = ks.first[0].listened, ks.first[1:]
	}
	return listened
}

// in says whether all are in who waited then.
func (ks *knocks) in(k knock) bool {
	for i, d := range ks.doors {
		if !d.listener.Entered(k.asked[i]) {
			return false
		}
	}
	return true
}

// doorsOf returns the doors that speak TLS, or the others.
func (g *Gateway) doorsOf(secure bool) []*door {
	return slices.DeleteFunc(slices.Clone(g.doors), func(d *door) bool { return (d.TLS != nil) != secure })
}

// sniff finds out which protocol begins with these bytes; nil if more of them are needed.
func (d *door) sniff(first []byte) (codec.Protocol, *codec.Error) {
	maybe := false
	for _, p := range d.Protocols {
		if len(d.Protocols) == 1 {
			return p, nil
		}
		switch p.Sniff(first) {
		case codec.Yes:
			return p, nil
		case codec.Maybe:
			maybe = true
		case codec.No:
		}
	}
	if maybe && len(first) < maxSniff {
		return nil, nil
	}
	return nil, &codec.Error{Code: codec.NotSpoken, Text: "these bytes are of no protocol that is spoken here: " + d.names()}
}

// names are those of the door's protocols.
func (d *door) names() string {
	var names []string
	for _, p := range d.Protocols {
		names = append(names, p.Name())
	}
	return strings.Join(names, ", ")
}

// goodbye is said to who has not spoken yet.
func (d *door) goodbye(dst []byte, why string, err *codec.Error) []byte {
	if len(d.Protocols) == 1 {
		return d.Protocols[0].Codec().Goodbye(dst, why, err)
	}
	return dst
}
