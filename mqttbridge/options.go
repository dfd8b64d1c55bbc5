package mqttbridge

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// Options returns the options for another client of the same broker: address, credentials and TLS,
// but no client identifier. The password is read for each connection. Its error wraps [ErrURL].
func Options(cfg Config) (*paho.ClientOptions, error) {
	u, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	o := paho.NewClientOptions().AddBroker(u.String()).SetProtocolVersion(4).SetCleanSession(true)
	if cfg.TLS != nil {
		o.SetTLSConfig(cfg.TLS.Clone())
	}
	if cfg.ConnectTimeout > 0 {
		o.SetConnectTimeout(cfg.ConnectTimeout)
	}
	if cfg.Username != "" || cfg.Password != nil {
		o.SetCredentialsProvider(cfg.credentials)
	}
	return o, nil
}

// credentials reads the password. It leaves out one that cannot be read, which
// [Config.checkPassword] has reported.
func (c *Config) credentials() (user, password string) {
	if c.Password != nil {
		if text, err := c.Password(); err == nil {
			password = text
		}
	}
	return c.Username, password
}

// checkPassword returns an error if the password cannot be read.
func (c *Config) checkPassword() error {
	if c.Password == nil {
		return nil
	}
	if _, err := c.Password(); err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	return nil
}

// clientOptions returns the options of a bridge's connection, which is closed when ctx is done.
func (c *Config) clientOptions(ctx context.Context, clientID string, heard *atomic.Int64, base time.Time) (*paho.ClientOptions, error) {
	o, err := Options(*c)
	if err != nil {
		return nil, err
	}
	o.SetClientID(clientID).SetKeepAlive(c.KeepAlive).SetPingTimeout(min(c.KeepAlive, 10*time.Second)).
		SetAutoReconnect(false).SetConnectRetry(false).SetOrderMatters(true).SetWriteTimeout(c.ConnectTimeout)
	o.SetCustomOpenConnectionFn(func(u *url.URL, o paho.ClientOptions) (net.Conn, error) {
		conn, err := c.open(ctx, u, &o)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		return &gate{Conn: conn, heard: heard, base: base, limit: c.MaxPayload + maxTopicHeader}, nil
	})
	return o, nil
}

// open is [Dial], or connects by the network of the configuration.
func (c *Config) open(ctx context.Context, u *url.URL, o *paho.ClientOptions) (net.Conn, error) {
	if c.network != nil {
		return c.network(ctx, "tcp", u.Host)
	}
	return Dial(ctx, u, o)
}

// maxTopicHeader is the largest size of a PUBLISH packet before its payload: topic with its length,
// and packet identifier.
const maxTopicHeader = 2 + 65535 + 2

// Dial opens the network connection to a broker for a client with these options.
func Dial(ctx context.Context, u *url.URL, o *paho.ClientOptions) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	switch u.Scheme {
	case "tcp", "mqtt":
		return o.Dialer.DialContext(ctx, "tcp", u.Host)
	case "ws", "wss":
		return paho.NewWebsocket(u.String(), o.TLSConfig, o.ConnectTimeout, o.HTTPHeaders, o.WebsocketOptions)
	}
	return (&tls.Dialer{NetDialer: o.Dialer, Config: o.TLSConfig}).DialContext(ctx, "tcp", u.Host)
}

// filters returns the topic filters of all conventions, with the quality of service to request.
func (c *Config) filters() map[string]byte {
	all := make(map[string]byte)
	for _, each := range c.Conventions {
		for _, s := range each.Subscriptions() {
			all[c.shared(s.Filter)] = max(all[c.shared(s.Filter)], min(max(s.QoS, c.QoS), 1))
		}
	}
	return all
}

// shared returns the filter with which a member of the group subscribes.
func (c *Config) shared(filter string) string {
	if c.Share == "" {
		return filter
	}
	return "$share/" + c.Share + "/" + filter
}

// ignored reports whether a topic is ignored.
func (c *Config) ignored(topic string) bool {
	return slices.ContainsFunc(c.Ignore, func(prefix string) bool { return strings.HasPrefix(topic, prefix) })
}
