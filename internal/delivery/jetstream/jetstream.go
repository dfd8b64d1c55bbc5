// Package jetstream delivers to streams of NATS JetStream. A message is delivered when the server acks
// that a stream has it. Within the duplicate window of the stream, the server drops a message whose id
// it has seen.
//
// A sink has one connection. The first delivery makes it, and so does the first one after it was lost.
// The client library's own reconnection is off, and with it the buffer of messages that it would send
// some time later.
package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// settings are the settings of an endpoint of kind nats.
type settings struct {
	sink.Settings

	// Subject is where to publish. {type} stands for the type of an event, or job; {device} for the
	// ordering key, which is the device of an event; {group} for the group of an event.
	// Default: holter.{type}.
	Subject string `json:"subject,omitempty"`

	// At most one way to log in.
	Username    string `json:"username,omitempty"`
	Password    string `json:"password,omitempty"`
	Token       string `json:"token,omitempty"`
	Seed        string `json:"seed,omitempty"`        // of an nkey
	Credentials string `json:"credentials,omitempty"` // the text of a .creds file

	// CA are the certificates, in PEM, of the authorities that the server's certificate must be from.
	// Default: those that the machine trusts.
	CA string `json:"ca,omitempty"`
}

const (
	defaultSubject = "holter.{type}"
	defaultPort    = 4222
	maxSubject     = 512 // of the setting

	// pingInterval is how often a silent server is pinged. After two unanswered pings the connection is
	// closed.
	pingInterval = 10 * time.Second
	// writeTimeout is how long a write may block.
	writeTimeout = 10 * time.Second
	// ackTimeout is when the library gives up an ack. No delivery takes longer.
	ackTimeout = 10 * time.Minute
)

// Kind returns the kind of sinks that publish to the servers that the guard allows.
func Kind(guard *sink.Guard) sink.Kind {
	return func(target string, text json.RawMessage) (sink.Sink, error) {
		url, err := parseTarget(target)
		if err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		var s settings
		if err := sink.Decode(text, &s); err != nil {
			return nil, err
		}
		s.Subject = cmp.Or(s.Subject, defaultSubject)
		if err := checkSubject(s.Subject); err != nil {
			return nil, fmt.Errorf("settings: subject: %w", err)
		}
		options, err := s.connection(strings.HasPrefix(url, "tls:"))
		if err == nil && !slices.ContainsFunc([]string{s.Password, s.Token, s.Seed, s.Credentials}, sink.IsCredential) {
			_, err = s.login()
		}
		if err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		return &publisher{settings: s, url: url, options: options, dialer: net.Dialer{Control: guard.Control}, turn: make(chan struct{}, 1)}, nil
	}
}

// parseTarget returns the URLs of a target's servers, separated by commas.
func parseTarget(target string) (string, error) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || scheme != "nats" && scheme != "tls" || len(target) > sink.MaxTarget {
		return "", fmt.Errorf("%.200q is no NATS server; want nats://HOST:4222 or tls://HOST:4222", target)
	}
	if strings.Contains(rest, "@") {
		return "", errors.New("user and password belong into the settings")
	}
	addresses, err := sink.Addresses(strings.TrimSuffix(rest, "/"), defaultPort)
	if err != nil {
		return "", err
	}
	for i, address := range addresses {
		addresses[i] = (&url.URL{Scheme: scheme, Host: address}).String()
	}
	return strings.Join(addresses, ","), nil
}

// connection returns the options of a connection, but for those of the login.
func (s *settings) connection(secure bool) ([]nats.Option, error) {
	config, err := sink.TLS(s.CA)
	if err != nil {
		return nil, err
	}
	return []nats.Option{
		nats.Name("holter"), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.SkipHostLookup(),
		nats.PingInterval(pingInterval), nats.FlusherTimeout(writeTimeout),
		func(o *nats.Options) error { // TLSConfig counts also if the server asks for TLS and the target does not
			o.Secure, o.TLSConfig = secure || s.CA != "", config
			return nil
		},
	}, nil
}

// login returns the options of the login; none for no login. It reads credentials.
func (s settings) login() (options []nats.Option, err error) {
	for _, secret := range []*string{&s.Password, &s.Token, &s.Seed, &s.Credentials} {
		if *secret, err = sink.Secret(*secret); err != nil {
			return nil, err
		}
	}
	ways := 0
	add := func(o nats.Option) { ways, options = ways+1, append(options, o) }
	if s.Username != "" || s.Password != "" {
		add(nats.UserInfo(s.Username, s.Password))
	}
	if s.Token != "" {
		add(nats.Token(s.Token))
	}
	if s.Seed != "" {
		key, err := nkeys.FromSeed([]byte(s.Seed))
		if err != nil {
			return nil, errors.New("seed is not that of an nkey; want a text that begins with SU")
		}
		public, err := key.PublicKey()
		if err != nil || !nkeys.IsValidPublicUserKey(public) {
			return nil, errors.New("seed is not that of a user's nkey; want a text that begins with SU")
		}
		add(nats.Nkey(public, key.Sign))
	}
	if s.Credentials != "" {
		text := []byte(s.Credentials)
		token, err := nkeys.ParseDecoratedJWT(text)
		if _, bad := nkeys.ParseDecoratedUserNKey(text); err != nil || bad != nil || !strings.HasPrefix(token, "ey") {
			return nil, errors.New("credentials are not the text of a .creds file, with its JWT and its seed")
		}
		add(nats.UserCredentialBytes(text))
	}
	if ways > 1 {
		return nil, errors.New("want one of username with password, token, seed and credentials")
	}
	return options, nil
}

// checkSubject returns an error that says what is wrong with the setting.
func checkSubject(subject string) error {
	if len(subject) > maxSubject || !utf8.ValidString(subject) {
		return fmt.Errorf("it is no UTF-8, or has more than %d bytes", maxSubject)
	}
	filled := strings.NewReplacer("{type}", "x", "{device}", "x", "{group}", "x").Replace(subject)
	if strings.HasPrefix(filled, "$") {
		return errors.New("what begins with $ belongs to the server")
	}
	for token := range strings.SplitSeq(filled, ".") {
		if token == "" || strings.ContainsFunc(token, func(c rune) bool { return isSpecial(c) || strings.ContainsRune("{}", c) }) {
			return fmt.Errorf("invalid subject %.100q: want tokens separated by dots, without spaces, * or >; {type}, {device} and {group} are replaced", subject)
		}
	}
	return nil
}

// isSpecial reports whether a character cannot be part of a token of a subject.
func isSpecial(c rune) bool {
	return unicode.IsSpace(c) || unicode.IsControl(c) || c == utf8.RuneError || strings.ContainsRune(".*>", c)
}

// token returns a text as one token of a subject.
func token(text string) string {
	return strings.Map(func(c rune) rune {
		if isSpecial(c) || c == '$' {
			return '_'
		}
		return c
	}, cmp.Or(text, "-"))
}

// subjectOf returns the subject of a message.
func subjectOf(template string, m *sink.Message) string {
	kind, group := m.Topic()
	return strings.NewReplacer("{type}", kind, "{device}", token(m.Key), "{group}", token(group)).Replace(template)
}

// headerID escapes an id for a header.
func headerID(id string) string {
	return sink.EscapeID(id, func(c byte) bool { return c > ' ' && c != 0x7f && c != '%' })
}

// messageOf returns a message as it is published. A stream finds duplicates by their ids alone. So the
// subject, which has no spaces, is part of the id: two endpoints that publish the same event to
// different subjects of one stream send no duplicates.
func messageOf(template string, m *sink.Message) *nats.Msg {
	subject := subjectOf(template, m)
	return &nats.Msg{
		Subject: subject, Data: m.Data,
		Header: nats.Header{jetstream.MsgIDHeader: {subject + " " + headerID(m.ID)}, "Content-Type": {m.ContentType}},
	}
}

// failure returns the result that an error of publishing means.
func failure(ctx context.Context, err error, subject string) sink.Result {
	api, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return sink.Result{Err: fmt.Errorf("the message is larger than the server allows: %w", err), Permanent: true}
	case isAPI && api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return sink.Result{Err: fmt.Errorf("the message is larger than the stream allows: %w", err), Permanent: true}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return sink.Result{Err: fmt.Errorf("no stream takes the subject %.200q; make one that does: %w", subject, err)}
	case ctx.Err() != nil && !isAPI: // the connection was cut for it
		return sink.Result{Err: fmt.Errorf("%w: %w", late(ctx), err)}
	}
	return sink.Result{Err: err}
}

func late(ctx context.Context) error { return sink.Late(ctx, "server") }
