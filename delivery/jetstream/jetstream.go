// Package jetstream delivers to streams of NATS JetStream. A message has arrived when the server says that a stream has it, and the server
// leaves out one that it has already, by its id, for as long as the stream's duplicate window is.
//
// A sink has one connection, which the first delivery makes, and the first one after it was lost makes anew. The client library's own
// reconnection is off, and with it the buffer of what it would send some time later.
package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/internal/peer"
)

// settings are the settings of an endpoint of kind nats.
type settings struct {
	delivery.Common

	// Subject is where to publish; {type} stands for the type of an event, or job, {device} for the ordering key, which is the device of an
	// event, and {group} for its group. Default: holter.{type}.
	Subject string `json:"subject,omitempty"`

	// One way to log in, or none.
	Username    string `json:"username,omitempty"`
	Password    string `json:"password,omitempty"`
	Token       string `json:"token,omitempty"`
	Seed        string `json:"seed,omitempty"`        // of an nkey
	Credentials string `json:"credentials,omitempty"` // the text of a .creds file

	// CA are the certificates that the server's is trusted by, in PEM. Default: those of the machine.
	CA string `json:"ca,omitempty"`
}

const (
	defaultSubject = "holter.{type}"
	defaultPort    = 4222
	maxSubject     = 512 // of the setting
	maxTarget      = 2048

	// pings are sent to a server that says nothing, and two without an answer mean that it is gone. stuck is how long it may take no bytes.
	pings = 10 * time.Second
	stuck = 10 * time.Second
	// forgotten is when an answer is not waited for any more. No delivery takes longer.
	forgotten = 10 * time.Minute
)

// Kind makes what publishes to servers that the guard lets pass.
func Kind(guard *delivery.Guard) delivery.Kind {
	return func(target string, text json.RawMessage) (delivery.Sink, error) {
		url, err := parseTarget(target)
		if err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		var s settings
		if err := delivery.DecodeSettings(text, &s); err != nil {
			return nil, err
		}
		s.Subject = cmp.Or(s.Subject, defaultSubject)
		if err := checkSubject(s.Subject); err != nil {
			return nil, fmt.Errorf("settings: subject: %w", err)
		}
		options, err := s.options(strings.HasPrefix(url, "tls:"))
		if err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		return newSink(url, s.Subject, options, guard), nil
	}
}

// parseTarget returns the URLs of a target's servers, with commas between them.
func parseTarget(target string) (string, error) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || scheme != "nats" && scheme != "tls" || len(target) > maxTarget {
		return "", fmt.Errorf("%.200q is no NATS server; want nats://HOST:4222 or tls://HOST:4222", target)
	}
	if strings.Contains(rest, "@") {
		return "", errors.New("user and password belong into the settings")
	}
	addresses, err := peer.Addresses(strings.TrimSuffix(rest, "/"), defaultPort)
	if err != nil {
		return "", err
	}
	for i, address := range addresses {
		addresses[i] = (&url.URL{Scheme: scheme, Host: address}).String()
	}
	return strings.Join(addresses, ","), nil
}

// options returns how to connect.
func (s *settings) options(secure bool) ([]nats.Option, error) {
	config, err := peer.TLS(s.CA)
	if err != nil {
		return nil, err
	}
	options := []nats.Option{
		nats.Name("holter"), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.SkipHostLookup(),
		nats.PingInterval(pings), nats.FlusherTimeout(stuck),
		func(o *nats.Options) error { // also for a server that asks for TLS although the target does not
			o.Secure, o.TLSConfig = secure || s.CA != "", config
			return nil
		},
	}
	login, err := s.login()
	return append(options, login...), err
}

// login returns how to say who we are.
func (s *settings) login() (options []nats.Option, err error) {
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

// checkSubject says what is wrong with the setting.
func checkSubject(subject string) error {
	if len(subject) > maxSubject || !utf8.ValidString(subject) {
		return fmt.Errorf("it is no UTF-8, or has more than %d bytes", maxSubject)
	}
	filled := strings.NewReplacer("{type}", "x", "{device}", "x", "{group}", "x").Replace(subject)
	if strings.HasPrefix(filled, "$") {
		return errors.New("what begins with $ belongs to the server")
	}
	for token := range strings.SplitSeq(filled, ".") {
		if token == "" || strings.ContainsFunc(token, func(c rune) bool { return unfit(c) || strings.ContainsRune("{}", c) }) {
			return fmt.Errorf("%.100q cannot be published to; want names with dots between them, without space, * and >, and {type}, {device} and {group} where these shall stand", subject)
		}
	}
	return nil
}

// unfit says whether a character cannot stand in a token of a subject.
func unfit(c rune) bool {
	return unicode.IsSpace(c) || unicode.IsControl(c) || c == utf8.RuneError || strings.ContainsRune(".*>", c)
}

// token makes one token of a text.
func token(text string) string {
	return strings.Map(func(c rune) rune {
		if unfit(c) || c == '$' {
			return '_'
		}
		return c
	}, cmp.Or(text, "-"))
}

// subjectOf returns where to publish a message.
func subjectOf(template string, m *delivery.Message) string {
	kind, group := "job", ""
	if m.Event != nil {
		kind, group = m.Event.Type.String(), m.Event.Group
	}
	return strings.NewReplacer("{type}", kind, "{device}", token(m.Key), "{group}", token(group)).Replace(template)
}

// headerID writes an id so that a header takes it, and no two become the same: space, control characters and % become %XX.
func headerID(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c == 0x7f || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// messageOf returns a message as it is published. A stream leaves out what it had by its id, whatever the subject: the subject, which has no
// spaces, is part of the id, so that two endpoints do not take each other's messages for repetitions.
func messageOf(template string, m *delivery.Message) *nats.Msg {
	subject := subjectOf(template, m)
	return &nats.Msg{
		Subject: subject, Data: m.Data,
		Header: nats.Header{jetstream.MsgIDHeader: {subject + " " + headerID(m.ID)}, "Content-Type": {m.ContentType}},
	}
}

// failure says what an error of publishing means.
func failure(ctx context.Context, err error, subject string) delivery.Result {
	api, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return delivery.Result{Err: fmt.Errorf("the message is larger than the server allows: %w", err), Permanent: true}
	case isAPI && api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return delivery.Result{Err: fmt.Errorf("the message is larger than the stream allows: %w", err), Permanent: true}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return delivery.Result{Err: fmt.Errorf("no stream takes the subject %.200q; make one that does: %w", subject, err)}
	case ctx.Err() != nil && !isAPI: // the connection was cut for it
		return delivery.Result{Err: fmt.Errorf("%w: %w", late(ctx), err)}
	}
	return delivery.Result{Err: err}
}

// late says that the time is up.
func late(ctx context.Context) error {
	return fmt.Errorf("the server did not answer in time: %w", ctx.Err())
}
