// Package webhook delivers messages by POST requests that are signed by the scheme of Standard
// Webhooks. An endpoint with a batch gets JSON arrays of messages.
package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
)

// Client is what all webhooks share: a pool of connections to allowed addresses. Kinds that speak to
// services by HTTP use it, too, see [Client.Do].
type Client struct {
	agent string
	http  *http.Client
}

// New returns a client with a User-Agent. It uses no proxy, since a proxy would connect to addresses
// that the guard does not check.
func New(guard *sink.Guard, agent string) *Client {
	dialer := &net.Dialer{Timeout: sink.DefaultTimeout, KeepAlive: 30 * time.Second, Control: guard.Control}
	return &Client{agent: agent, http: over(&http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    sink.DefaultTimeout,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // a small compressed response may be a large one
		ForceAttemptHTTP2:      true,
	})}
}

// over returns a client that uses a transport.
func over(transport http.RoundTripper) *http.Client {
	// Nobody has configured the URL that a redirect leads to.
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Close closes the idle connections. Close the sinks first.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// settings are the settings of an endpoint of kind webhook.
type settings struct {
	sink.Settings

	// Secret signs requests. PreviousSecret signs as well, while receivers change to Secret.
	Secret         string            `json:"secret,omitempty"`
	PreviousSecret string            `json:"previous_secret,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`

	// Template is what is sent instead of CloudEvents, see package wording: one body for all messages of a
	// request. ContentType is that of the body. Default: application/json.
	Template    string `json:"template,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	// Console is the address at which people reach the console, for links in the template.
	Console string `json:"console,omitempty"`
}

// webhook is a sink.
type webhook struct {
	sink.Settings

	client  *Client
	target  string    // empty: each message has a URL
	secrets [2]string // that sign
	signer  signer    // nil if there are none, or one is a credential
	header  http.Header

	template    *wording.Template // nil: CloudEvents
	contentType string
	console     string
}

// PerMessage returns a sink that POSTs each message to the URL that the message has.
func (c *Client) PerMessage() sink.Sink {
	return &webhook{client: c, header: make(http.Header)}
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
	out := &webhook{Settings: s.Settings, client: c, target: target, secrets: [2]string{s.Secret, s.PreviousSecret}, header: make(http.Header)}
	if err := errors.Join(out.setSigner(&s), out.setHeaders(s.Headers), out.setTemplate(&s)); err != nil {
		return nil, err
	}
	return out, nil
}

func (h *webhook) setSigner(s *settings) (err error) {
	if s.PreviousSecret != "" && s.Secret == "" {
		return errors.New("settings: previous_secret is given without secret")
	}
	if slices.ContainsFunc(h.secrets[:], sink.IsCredential) {
		return nil
	}
	if h.signer, err = newSigner(h.secrets[:]...); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

func (h *webhook) setHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return fmt.Errorf("settings: %d headers, want %d at most", len(headers), maxHeaders)
	}
	for name, value := range headers {
		if err := checkHeader(name, value); err != nil {
			return fmt.Errorf("settings: header %.80q: %w", name, err)
		}
		h.header.Set(name, value)
	}
	return nil
}

func (h *webhook) setTemplate(s *settings) (err error) {
	if s.Template == "" {
		if s.ContentType != "" || s.Console != "" {
			return errors.New("settings: content_type and console are for a template, and there is none")
		}
		return nil
	}
	h.contentType = cmp.Or(s.ContentType, "application/json")
	if _, _, err := mime.ParseMediaType(h.contentType); err != nil {
		return fmt.Errorf("settings: content_type %.80q: %w", s.ContentType, err)
	}
	if h.console, err = wording.Console(s.Console); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if h.template, err = wording.Parse("template", s.Template); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
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
