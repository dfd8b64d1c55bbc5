package link

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

// EarConfig configures an [Ear]. Name and Judges are required.
type EarConfig struct {
	// Name is the ear's among all ears of a judge; with "gateway/" before it it is that of its source, and
	// with "gateway-udp/" that of its source of datagrams, see [liveness.ValidateID].
	Name string
	// Judges are the nodes that may be the judge, "host:port" or "unix:path". They are tried in turn.
	Judges []string
	// Credentials returns what secures the next link. Default: nothing does, which is for Unix sockets.
	Credentials func() credentials.TransportCredentials
	// Dial opens connections. Default: directly.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Fleet is the fleet that the judge must have. Default "": that of the first that is joined.
	Fleet string
	// Version is this program's, for people.
	Version string
	// Now reads the clock that the instants of all methods are of. It must go on evenly, and never
	// back; for the sake of P1 it must also go on while the process is stopped. It is called
	// concurrently. Default: the time since NewEar.
	Now func() time.Duration
	// Pass calls done, on any goroutine, once everything has been handled that had reached the
	// listeners when Pass was called. It must not block. Until done is called the ear's devices are
	// not judged, nor are those of others. Default: calls done at once.
	Pass func(done func())
	// PassDatagrams is Pass for what devices without connections have sent, see [Ear.OpenDatagrams]. done is
	// told how often datagrams have begun to be lost since the process began, or have ceased to be: that
	// is odd while they are, and then nothing need be handled before done is called. Required for
	// [Ear.OpenDatagrams].
	PassDatagrams func(done func(losses uint64))
	// Joined is called when a judge has taken the ear in that had none: the first one, or one after LetGo. It
	// is called as LetGo is. Default: nothing.
	Joined func()
	// LetGo is called when the ear has lost its judge for too long: all sessions have ended, and every
	// connection of a device must be closed now. It is called by the goroutine that makes all calls,
	// and must not block. Default: nothing.
	LetGo func(why string)
	// Send writes a message to the device of an open session, which was opened with a peer: payload as
	// a text of its protocol, or, if raw is set, as it is. It returns when the kernel has all of it, or
	// ctx is done, with the errors of [Judge.Send]. It is called on a goroutine for each message, and
	// may keep the payload. Default: no device can be written to.
	Send func(ctx context.Context, to liveness.Peer, payload []byte, raw bool) (Sent, error)
	// Beside is called while there is a link, by a goroutine of its own, with another connection to the
	// judge: what goes by that does not stand in the way of heartbeats. It must return when ctx is done.
	// Default: nothing.
	Beside func(ctx context.Context, judge *grpc.ClientConn)
	// Drain is called when the judge asks the ear to end in order: close the connections of devices
	// with [Session.Release], and then [Ear.Leave]. It may be called again, by the goroutine that makes
	// all calls, and must not block. Default: nothing.
	Drain func()
	// Logger is told when judges come and go. Default: none.
	Logger *slog.Logger
}

func (c EarConfig) withDefaults() (EarConfig, error) {
	var errs []error
	if !validName(c.Name) {
		errs = append(errs, fmt.Errorf("link: Name is %q, want a name for the ear", c.Name))
	}
	if len(c.Judges) == 0 {
		errs = append(errs, errors.New("link: Judges is empty"))
	}
	if c.Credentials == nil {
		c.Credentials = insecure.NewCredentials
	}
	if c.Now == nil {
		start := time.Now()
		c.Now = func() time.Duration { return time.Since(start) }
	}
	if c.Pass == nil {
		c.Pass = func(done func()) { done() }
	}
	if c.Dial == nil {
		c.Dial = dial
	}
	if c.Joined == nil {
		c.Joined = func() {}
	}
	if c.LetGo == nil {
		c.LetGo = func(string) {}
	}
	if c.Send == nil {
		c.Send = noSend
	}
	if c.Drain == nil {
		c.Drain = func() {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, errors.Join(errs...)
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// JudgeConfig configures a [Judge]. The zero JudgeConfig is a good one.
type JudgeConfig struct {
	// Fleet identifies the fleet: an ear that was with another is refused.
	Fleet string
	// Node and Version are this process, for people.
	Node, Version string
	// Source is what the sources of ears have in common; Name and Note are the judge's. Default of Pool:
	// "gateway".
	Source liveness.SourceConfig
	// Term returns the judge's term. It must not fall. Default: 0.
	Term func() uint64
	// Redirect reports whether this process is the judge, and, if not, where the judge is, "" if that
	// is not known. It is called often, and must not block. Default: it is.
	Redirect func() (judge string, isJudge bool)
	// Starting reports, while Redirect reports that this process is not the judge, whether it is the next
	// one for certain, and only has to read its state. Then ears go on to hold their connections. It is
	// called often, and must not block. Default: it is not.
	Starting func() bool
	// Quota bounds how many devices become known by way of ears. Default: none.
	Quota operate.Quota
	// Logger is told when ears come and go. Default: none.
	Logger *slog.Logger
}

func (c JudgeConfig) withDefaults() JudgeConfig {
	c.Source.Pool = cmp.Or(c.Source.Pool, "gateway")
	if c.Term == nil {
		c.Term = func() uint64 { return 0 }
	}
	if c.Redirect == nil {
		c.Redirect = func() (string, bool) { return "", true }
	}
	if c.Starting == nil {
		c.Starting = func() bool { return false }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// validName reports whether an ear can have a name.
func validName(name string) bool {
	return name != "" && liveness.ValidateID(datagrams.sourceName(name)) == nil
}

// sourceName returns the name of an ear's source.
func (i input) sourceName(ear string) string { return i.prefix() + ear }

// prefix begins the names of the sources that ears are.
func (i input) prefix() string {
	if i == datagrams {
		return "gateway-udp/"
	}
	return "gateway/"
}

// note describes an ear's source.
func (i input) note() string {
	const note = "an ear in another process; its clock follows its answers to rounds"
	if i == datagrams {
		return "devices over UDP at " + note + ", and it is deaf when a socket overflows that devices use"
	}
	return note
}

// Reserved reports whether no ear can have a name, since a source of the judge's own gateway has it.
func Reserved(name string) bool { return name == "tls" || name == "udp" }

// isEar reports whether a source is an ear.
func isEar(source string) bool {
	name, ok := strings.CutPrefix(source, connections.prefix())
	return ok && !Reserved(name) || strings.HasPrefix(source, datagrams.prefix())
}

// newIncarnation returns a number that no other run of an ear has.
func newIncarnation() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}
