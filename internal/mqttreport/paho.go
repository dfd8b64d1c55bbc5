package mqttreport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/mqttbridge"
)

// PahoConfig is the configuration of a [Paho].
type PahoConfig struct {
	// Options are the broker's address, credentials and TLS. Required. Their settings for sessions,
	// reconnects, handlers and wills are ignored.
	Options *paho.ClientOptions
	// Prefix is the reporter's prefix. PREFIX/status reports whether the reporter is connected.
	// Default: "holter".
	Prefix string
	// ClientID is the client identifier. Default: derived from the host's name and the prefix, so
	// that a new process takes over the connection of one that died.
	ClientID string
	// Session is called before each connection. It returns the client identifier, in place of
	// ClientID; with an error, the publisher does not connect, and tries again later, see
	// [mqttbridge.Config]. It may block until ctx is done. nil: ClientID, at any time.
	Session func(ctx context.Context) (clientID string, err error)
	// KeepAlive is the keep alive of the connection. Default: 30 s.
	KeepAlive time.Duration
	// MaxReconnect is the longest pause between two connection attempts. Default: 30 s.
	MaxReconnect time.Duration
	// Quiet is the time without retained messages, after the publisher's own message came back,
	// after which all have come. Default: 300 ms.
	Quiet time.Duration
	// Logger receives errors. Default: nothing is logged.
	Logger *slog.Logger
}

func (c PahoConfig) withDefaults() (PahoConfig, error) {
	c.Prefix = cmp.Or(c.Prefix, "holter")
	if c.ClientID == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("report: make a client id: %w", err)
		}
		sum := sha256.Sum256([]byte(host + "\x00" + c.Prefix))
		c.ClientID = "holter-report-" + hex.EncodeToString(sum[:4]) // 22 bytes; MQTT 3.1.1 promises 23 (section 3.1.3.1)
	}
	c.KeepAlive, c.MaxReconnect = cmp.Or(c.KeepAlive, 30*time.Second), cmp.Or(c.MaxReconnect, 30*time.Second)
	c.Quiet = cmp.Or(c.Quiet, 300*time.Millisecond)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Options == nil || len(c.Options.Servers) == 0 {
		return c, errors.New("report: Options name no broker")
	}
	if c.KeepAlive < time.Second || c.MaxReconnect <= 0 || c.Quiet < 0 {
		return c, errors.New("report: KeepAlive must be 1 s or more, MaxReconnect positive and Quiet not negative")
	}
	return c, checkPrefix("Prefix", c.Prefix)
}

// Paho is a [Publisher] with its own connection. Make one with [NewPaho], and call [Paho.Run].
type Paho struct {
	cfg PahoConfig

	mu      sync.Mutex // guards the fields below
	now     *session   // nil while there is no connection
	changed chan struct{}
}

// session is one connection.
type session struct {
	client paho.Client
	id     string        // client identifier
	ended  chan struct{} // closed when the connection has ended
	once   sync.Once     // closes it
}

func (s *session) end() { s.once.Do(func() { close(s.ended) }) }

// NewPaho returns a publisher that is not connected yet. It returns an error for an invalid
// configuration.
func NewPaho(cfg PahoConfig) (*Paho, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Paho{cfg: cfg, changed: make(chan struct{})}, nil
}

// Run keeps the publisher connected until ctx is done. Then it publishes the offline status and
// disconnects. Call it once.
func (p *Paho) Run(ctx context.Context) error {
	for wait := 500 * time.Millisecond; ; {
		s, err := p.connect(ctx)
		if err == nil {
			wait = 500 * time.Millisecond
			p.set(s)
			select {
			case <-s.ended:
				p.cfg.Logger.WarnContext(ctx, "MQTT connection for reports lost")
			case <-ctx.Done():
			}
			p.set(nil)
			p.close(ctx, s, ctx.Err() != nil)
		} else if ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "cannot connect to the MQTT broker for reports; retrying", "error", err)
		}
		if !pause(ctx, wait/2+rand.N(wait/2+1)) { // jitter
			return ctx.Err()
		}
		wait = min(2*wait, p.cfg.MaxReconnect)
	}
}

// set sets the current session.
func (p *Paho) set(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// session returns the current session, or nil, and a channel that is closed when it changes.
func (p *Paho) session() (*session, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed
}

// connect opens a session and publishes the online status. Until it returns, the end of ctx closes
// the network connection.
func (p *Paho) connect(ctx context.Context) (*session, error) {
	s := &session{id: p.cfg.ClientID, ended: make(chan struct{})}
	if p.cfg.Session != nil {
		var err error
		if s.id, err = p.cfg.Session(ctx); err != nil {
			return nil, err
		}
	}
	o := *p.cfg.Options
	o.SetClientID(s.id).SetProtocolVersion(4).SetCleanSession(true).SetAutoReconnect(false).SetConnectRetry(false).SetOrderMatters(true)
	o.SetKeepAlive(p.cfg.KeepAlive).SetPingTimeout(min(p.cfg.KeepAlive, 10*time.Second)).SetWriteTimeout(10 * time.Second)
	o.SetConnectTimeout(min(cmp.Or(o.ConnectTimeout, 10*time.Second), 10*time.Second)).SetStore(nil)
	o.SetWill(StatusTopic(p.cfg.Prefix), Offline, 1, true)
	o.SetOnConnectHandler(nil).SetReconnectingHandler(nil).SetDefaultPublishHandler(nil)
	o.SetConnectionLostHandler(func(paho.Client, error) { s.end() })
	stop := func() bool { return true }
	o.SetCustomOpenConnectionFn(func(u *url.URL, o paho.ClientOptions) (net.Conn, error) {
		c, err := mqttbridge.Dial(ctx, u, &o)
		if err == nil {
			stop = context.AfterFunc(ctx, func() { c.Close() })
		}
		return c, err
	})
	s.client = paho.NewClient(&o)
	token := s.client.Connect()
	<-token.Done() // it ends soon after ctx
	stop()
	if err := token.Error(); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Servers[0].Redacted(), err)
	}
	if err := s.publish(ctx, StatusTopic(p.cfg.Prefix), []byte(Online), true); err != nil {
		p.close(ctx, s, false)
		return nil, fmt.Errorf("publish to %s: %w", StatusTopic(p.cfg.Prefix), err)
	}
	return s, nil
}

// close ends a session. If inOrder, it publishes the offline status before.
func (p *Paho) close(ctx context.Context, s *session, inOrder bool) {
	if inOrder {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := s.publish(ctx, StatusTopic(p.cfg.Prefix), []byte(Offline), true); err != nil {
			p.cfg.Logger.WarnContext(ctx, "cannot publish the offline status to MQTT", "error", err)
		}
	}
	s.client.Disconnect(100)
	s.end()
}

// errLost is returned by operations during which the connection ended.
var errLost = errors.New("report: the connection to the broker was lost")

// await waits for a token.
func (s *session) await(ctx context.Context, t paho.Token) error {
	select {
	case <-t.Done():
		return t.Error()
	case <-s.ended:
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	return s.await(ctx, s.client.Publish(topic, 1, retain, payload))
}

// Connected implements [Publisher].
func (p *Paho) Connected(ctx context.Context) (<-chan struct{}, error) {
	for {
		s, changed := p.session()
		if s != nil {
			return s.ended, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Publish implements [Publisher], with QoS 1.
func (p *Paho) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	s, _ := p.session()
	if s == nil {
		return errLost
	}
	return s.publish(ctx, topic, payload, retain)
}
