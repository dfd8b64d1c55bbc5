package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// email sends by a server for mail: smtp://HOST:587 with STARTTLS, or smtps://HOST:465.
type email struct {
	settings

	From     string   `json:"from,omitempty"`
	To       []string `json:"to,omitempty"`
	Username string   `json:"username,omitempty"`
	Password string   `json:"password,omitempty"`
	// Plaintext sends without TLS and without a login, to a server on the same machine or network.
	Plaintext bool `json:"plaintext,omitempty"`
	// CA are the certificates, in PEM, of the authorities that the server's certificate must be from.
	// Default: those that the machine trusts.
	CA string `json:"ca,omitempty"`

	secure     bool // smtps
	host       string
	port       int
	from       *netmail.Address
	recipients []*netmail.Address
	tls        *tls.Config
}

const (
	maxRecipients = 50
	maxSubject    = 200
	maxMail       = 100_000 // characters of the text
)

// check implements sender.
func (e *email) check(target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || len(target) > sink.MaxTarget {
		return fmt.Errorf("target: %.200q is no server for mail; want smtp://HOST:587 or smtps://HOST:465, and user and password in the settings", target)
	}
	e.secure, e.host = u.Scheme == "smtps", u.Hostname()
	if e.port, err = strconv.Atoi(cmp.Or(u.Port(), map[bool]string{false: "587", true: "465"}[e.secure])); err != nil || e.port < 1 || e.port > 65535 {
		return fmt.Errorf("target: port %s is none", u.Port())
	}
	switch {
	case e.Plaintext && e.secure:
		return errors.New("settings: plaintext contradicts smtps in the target")
	case e.Plaintext && e.Username != "":
		return errors.New("settings: with plaintext the password could be read on the way; leave out username and password, or plaintext")
	case (e.Username == "") != (e.Password == ""):
		return errors.New("settings: want username and password, or neither")
	}
	if err := e.checkAddresses(); err != nil {
		return err
	}
	if e.tls, err = sink.TLS(e.CA); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	e.tls.ServerName = e.host
	return nil
}

func (e *email) checkAddresses() error {
	var err error
	if e.from, err = netmail.ParseAddress(e.From); err != nil {
		return fmt.Errorf("settings: from is %.200q, want an address such as holter@example.org", e.From)
	}
	if len(e.To) == 0 || len(e.To) > maxRecipients {
		return fmt.Errorf("settings: to has %d addresses, want 1 to %d", len(e.To), maxRecipients)
	}
	for _, text := range e.To {
		to, err := netmail.ParseAddress(text)
		if err != nil {
			return fmt.Errorf("settings: to has %.200q, want an address such as ops@example.org", text)
		}
		e.recipients = append(e.recipients, to)
	}
	return nil
}

// send implements sender.
func (e *email) send(ctx context.Context, a *attempt, m *message) sink.Result {
	options, err := e.options(ctx, a)
	if err != nil {
		return sink.Result{Err: err}
	}
	client, err := mail.NewClient(e.host, options...)
	if err != nil {
		return sink.Result{Err: err}
	}
	server, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return e.failed(ctx, err)
	}
	letter := e.letter(m)
	if err := client.SendWithSMTPClient(server, letter); err != nil {
		_ = server.Close() // the connection may hang
		return e.failed(ctx, err)
	}
	_ = client.CloseWithSMTPClient(server) // the server has accepted the mail, whatever it says now
	return sink.Result{Status: 250, Response: letter.ServerResponse()}
}

// options returns the options of a connection that ends with ctx.
func (e *email) options(ctx context.Context, a *attempt) ([]mail.Option, error) {
	timeout := sink.DefaultTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(end), 0) + time.Second // so that ctx ends first
	}
	options := []mail.Option{mail.WithPort(e.port), mail.WithTimeout(timeout), mail.WithTLSConfig(e.tls), mail.WithoutNoop(), mail.WithDialContextFunc(e.dialer(ctx, a.guard))}
	switch {
	case e.secure:
		options = append(options, mail.WithSSL())
	case e.Plaintext:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if e.Username == "" {
		return options, nil
	}
	password, err := a.secret(e.Password)
	if err != nil {
		return nil, err
	}
	return append(options, mail.WithUsername(e.Username), mail.WithPassword(password),
		mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin, mail.SMTPAuthCramMD5)), nil
}

// dialer returns what connects to the server if the guard allows it. The connection is cut when ctx is
// done.
func (e *email) dialer(ctx context.Context, guard *sink.Guard) mail.DialContextFunc {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		plain := &net.Dialer{Timeout: sink.DefaultTimeout, Control: guard.Control}
		dial := plain.DialContext
		if e.secure {
			dial = (&tls.Dialer{NetDialer: plain, Config: e.tls}).DialContext
		}
		conn, err := dial(dialing, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}

// failed returns what an error of the server means. A mail whose text it refuses with 5xx will never be
// accepted. If it refuses the login or an address, settings can be mended.
func (e *email) failed(ctx context.Context, err error) sink.Result {
	r := sink.Result{Err: err}
	if ctx.Err() != nil {
		r.Err = fmt.Errorf("%w: %w", sink.Late(ctx, "server"), err)
		return r
	}
	if refused, ok := errors.AsType[*mail.SendError](err); ok {
		r.Status = refused.ErrorCode()
		r.Permanent = r.Status >= 500 && (refused.Reason == mail.ErrSMTPData || refused.Reason == mail.ErrSMTPDataClose)
	} else if answer, ok := errors.AsType[*textproto.Error](err); ok {
		r.Status = answer.Code
	}
	return r
}

// letter returns a mail. Its id is the same whenever the same message is sent, and mails about the same
// device are one conversation.
func (e *email) letter(m *message) *mail.Msg {
	letter := mail.NewMsg(mail.WithNoDefaultUserAgent())
	letter.FromMailAddress(e.from)
	letter.ToMailAddress(e.recipients...)
	letter.Subject(fit{most: maxSubject}.text(m.text.Title))
	_, domain, _ := strings.Cut(e.from.Address, "@")
	id := func(text string) string { return hash(text) + ".holter@" + domain }
	letter.SetMessageIDWithValue(id("message " + m.id + " " + strconv.Itoa(m.Count) + " " + m.List[m.Count-1].Key))
	if m.Key != "" {
		about := "<" + id("about "+m.Key) + ">"
		letter.SetGenHeader(mail.HeaderInReplyTo, about)
		letter.SetGenHeader(mail.HeaderReferences, about)
	}
	letter.SetDate()
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	lines := m.text.Lines
	if len(lines) == 0 {
		lines = []string{m.text.Title}
	}
	if m.URL != "" {
		lines = append(slices.Clip(lines), "", m.URL)
	}
	letter.SetBodyString(mail.TypeTextPlain, fit{most: maxMail}.lines(lines)+"\n")
	return letter
}
