package broker

import (
	"context"
	"errors"
	"net"
)

var (
	// ErrDenied is returned by Login for who may not connect.
	ErrDenied = errors.New("broker: wrong user name or password")
	// ErrLogins is returned by Login when too many wait for theirs; the client is to try again later.
	ErrLogins = errors.New("broker: too many logins at a time")
)

// Auth says who may connect.
type Auth interface {
	// Login returns nil for who may: a client with an id at an address, with what it says as its user name and password, which are empty
	// if it says nothing. Any error means that it may not; [ErrLogins] or one of ctx, that it may try again. It is called concurrently, may
	// take a while, and must not keep password.
	Login(ctx context.Context, clientID, user string, password []byte, remote net.Addr) error
}

// Anonymous returns an Auth that lets everybody in who is on this machine, or everybody at all, whatever he says.
func Anonymous(loopbackOnly bool) Auth { return anonymous(loopbackOnly) }

type anonymous bool

// Login implements Auth.
func (a anonymous) Login(_ context.Context, _, _ string, _ []byte, remote net.Addr) error {
	if !bool(a) {
		return nil
	}
	if tcp, ok := remote.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return nil
	}
	return ErrDenied
}

// proves reports whether a login shows who somebody is that has said a user name, or none.
func proves(a Auth, user string) bool {
	switch a := a.(type) {
	case anonymous:
		return false
	case either:
		if user == "" {
			return proves(a.nameless, user)
		}
		return proves(a.named, user)
	}
	return true
}

// Either returns an Auth that asks named about clients that say a user name, and nameless about the others.
func Either(named, nameless Auth) Auth { return either{named, nameless} }

type either struct{ named, nameless Auth }

// Login implements Auth.
func (e either) Login(ctx context.Context, clientID, user string, password []byte, remote net.Addr) error {
	if user == "" {
		return e.nameless.Login(ctx, clientID, user, password, remote)
	}
	return e.named.Login(ctx, clientID, user, password, remote)
}
