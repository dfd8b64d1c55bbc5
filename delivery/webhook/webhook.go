// Package webhook delivers messages by POST requests that are signed by the scheme of Standard
// Webhooks. An endpoint with a batch gets JSON arrays of messages.
package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holter-iot/holter/delivery/sink"
)

// Client is what all webhooks share: a pool of connections to allowed addresses.
type Client struct {
	agent     string
	transport *http.Transport
}

// New returns a client with a User-Agent. It uses no proxy, since a proxy would connect to addresses
// that the guard does not check.
func New(guard *sink.Guard, agent string) *Client {
	dialer := &net.Dialer{Timeout: sink.DefaultTimeout, KeepAlive: 30 * time.Second, Control: guard.Control}
	return &Client{agent: agent, transport: &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    sink.DefaultTimeout,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // a small compressed response may be a large one
		ForceAttemptHTTP2:      true,
	}}
}

// Close closes the idle connections. Close the sinks first.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// settings are the settings of an endpoint of kind webhook.
type settings struct {
	sink.Settings

	// Secret signs requests. PreviousSecret signs as well, while receivers change to Secret.
	Secret         string            `json:"secret,omitempty"`
	PreviousSecret string            `json:"previous_secret,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
}

// webhook is a sink.
type webhook struct {
	sink.Settings

	agent  string
	target string // empty: each message has a URL
	signer signer
	header http.Header
	client *http.Client
}

// PerMessage returns a sink that POSTs each message to the URL that the message has.
func (c *Client) PerMessage() sink.Sink { return c.sink("", c.transport) }

func (c *Client) sink(target string, transport http.RoundTripper) *webhook {
	return &webhook{agent: c.agent, target: target, header: make(http.Header), client: &http.Client{
		Transport: transport,
		// Nobody has configured the URL that a redirect leads to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Kind is the [sink.Kind] of webhooks.
func (c *Client) Kind(target string, text json.RawMessage) (sink.Sink, error) {
	if err := CheckURL(target); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	var s settings
	if err := sink.Decode(text, &s); err != nil {
		return nil, err
	}
	out := c.sink(target, c.transport)
	out.Settings = s.Settings
	var err error
	if out.signer, err = newSigner(s.Secret, s.PreviousSecret); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if s.PreviousSecret != "" && s.Secret == "" {
		return nil, errors.New("settings: previous_secret is given without secret")
	}
	if len(s.Headers) > maxHeaders {
		return nil, fmt.Errorf("settings: %d headers, want %d at most", len(s.Headers), maxHeaders)
	}
	for name, value := range s.Headers {
		if err := checkHeader(name, value); err != nil {
			return nil, fmt.Errorf("settings: header %.80q: %w", name, err)
		}
		out.header.Set(name, value)
	}
	return out, nil
}

// maxHeaders is the maximum number of headers in the settings of an endpoint.
const maxHeaders = 20

// CheckURL returns an error that says why a URL cannot be delivered to.
func CheckURL(target string) error {
	u, err := url.Parse(target)
	switch {
	case len(target) > sink.MaxTarget:
		return fmt.Errorf("the URL has %d bytes, want %d at most", len(target), sink.MaxTarget)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%.200q is no URL to deliver to; want http://HOST/PATH or https://HOST/PATH", target)
	case u.User != nil:
		return errors.New("the URL must not have a user or password; use settings.headers for an Authorization")
	case u.Fragment != "":
		return errors.New("the URL must not have a fragment (#)")
	}
	return nil
}

func checkHeader(name, value string) error {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature":
		return errors.New("it is set by holter")
	}
	token := func(c rune) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune("()<>@,;:\\\"/[]?={}", c) }
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(c rune) bool { return !token(c) }) {
		return errors.New("this cannot be the name of a header")
	}
	if len(value) > 4096 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return errors.New("its value is too long or has a control character")
	}
	return nil
}
