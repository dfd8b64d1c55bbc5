package mqtt

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	broker "github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

const (
	// maxConnect is the size of the largest accepted CONNECT, in bytes, because its sender is not
	// authenticated yet.
	maxConnect = 64 << 10
	// minConnect is the least remaining length of a CONNECT.
	minConnect = 12
	// patience is how long a login may wait for the check of its password. The gateway's listening clock
	// waits as long, so who floods it with guesses delays verdicts by no more.
	patience = 2 * time.Second
)

// Protocol is MQTT. Both fields are required.
type Protocol struct {
	Broker *broker.Broker
	Access *access.Access
}

// Name implements [codec.Protocol].
func (*Protocol) Name() string { return "mqtt" }

// Sniff implements [codec.Protocol]: the first packet is a CONNECT, with its protocol's name behind the
// length (MQTT 5, 3.1.2.1).
func (*Protocol) Sniff(first []byte) codec.Guess {
	if first[0] != byte(packet.TypeConnect)<<4 {
		return codec.No
	}
	if len(first) > 1 && first[1] < minConnect {
		return codec.No
	}
	at := 1
	for ; at < len(first) && at < 5; at++ {
		if first[at] < 0x80 {
			return sniffName(first[at+1:])
		}
	}
	if at == 5 {
		return codec.No
	}
	return codec.Maybe
}

func sniffName(rest []byte) codec.Guess {
	for _, name := range []string{"\x00\x04MQTT", "\x00\x06MQIsdp"} {
		n := min(len(rest), len(name))
		switch {
		case string(rest[:n]) != name[:n]:
		case n == len(name):
			return codec.Yes
		default:
			return codec.Maybe
		}
	}
	return codec.No
}

// Codec implements [codec.Protocol].
func (p *Protocol) Codec() codec.Codec { return &conn{protocol: p} }

// Authenticate implements [codec.Authenticator].
func (c *conn) Authenticate(m *codec.Message, from codec.Origin) (a codec.Admission, later func() codec.Admission) {
	var p packet.Connect
	if err := p.Decode(m.Text); err != nil {
		return codec.Admission{Err: c.broken(err)}, nil
	}
	login := access.Login{ClientID: string(m.ID), User: string(p.User), Password: p.Password, Certificate: from.Name, Remote: from.Address, Relayed: from.Relayed}
	if grant, ok, err := c.protocol.Access.Decide(login); ok {
		return c.admit(&p, login.ClientID, grant, err), nil
	}
	return codec.Admission{}, c.later(login, bytes.Clone(m.Text))
}

// later returns what decides about a login with the body of a CONNECT that was good before.
func (c *conn) later(login access.Login, body []byte) func() codec.Admission {
	login.Password = bytes.Clone(login.Password)
	return func() codec.Admission {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		grant, err := c.protocol.Access.Login(ctx, login)
		var p packet.Connect
		_ = p.Decode(body)
		return c.admit(&p, login.ClientID, grant, err)
	}
}

// Revoked implements [codec.Authenticator].
func (c *conn) Revoked() bool { return c.grant != nil && !c.grant.Valid() }

// Generation implements [codec.Reviewed].
func (p *Protocol) Generation() uint64 { return p.Access.Generation() }

// admit returns what was decided about a login.
func (c *conn) admit(p *packet.Connect, id string, grant *access.Grant, err error) codec.Admission {
	if err == nil {
		err = c.protocol.Broker.Check(p, id, grant)
	}
	if err != nil {
		return codec.Admission{Err: c.broken(err)}
	}
	c.grant = grant
	return codec.Admission{User: grant.User(), Bound: grant.Bound()}
}

// refusal returns the error that ends a login.
func refusal(err error) *codec.Error {
	e := &codec.Error{Code: codec.Unauthorized, Text: err.Error()}
	switch {
	case errors.Is(err, access.ErrBusy) || errors.Is(err, access.ErrLocked) || errors.Is(err, context.DeadlineExceeded):
		e.Code = codec.Busy
	case errors.Is(err, access.ErrClientID):
		e.Code = codec.BadID
	}
	if p, ok := errors.AsType[*packet.Error](err); ok {
		e.Code, e.Text = codecCode(p.Code), p.Text
	}
	return e
}
