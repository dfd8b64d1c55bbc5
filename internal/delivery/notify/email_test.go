package notify_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/holter-iot/holter/internal/delivery/notify"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness"
)

// postOffice is a server for mail. fail returns its answer to a command; nil: it accepts it.
type postOffice struct {
	fail func(command string) error

	mu      sync.Mutex
	letters []letter
}

// letter is a mail that the server got.
type letter struct {
	user, from string
	to         []string
	secure     bool
	text       []byte
}

// visit is a connection to the server.
type visit struct {
	office *postOffice
	conn   *smtp.Conn
	letter letter
}

func (o *postOffice) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &visit{office: o, conn: c}, nil
}

func (v *visit) refuse(command string) error {
	if v.office.fail == nil {
		return nil
	}
	return v.office.fail(command)
}

func (v *visit) AuthMechanisms() []string { return []string{sasl.Plain} }

func (v *visit) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != "holter" || password != "SECRET-password" {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no, not with " + password}
		}
		v.letter.user = username
		return nil
	}), nil
}

func (v *visit) Mail(from string, _ *smtp.MailOptions) error {
	_, v.letter.secure = v.conn.TLSConnectionState()
	v.letter.from = from
	return v.refuse("MAIL")
}

func (v *visit) Rcpt(to string, _ *smtp.RcptOptions) error {
	v.letter.to = append(v.letter.to, to)
	return v.refuse("RCPT")
}

func (v *visit) Data(r io.Reader) error {
	var err error
	if v.letter.text, err = io.ReadAll(r); err != nil {
		return err
	}
	if err := v.refuse("DATA"); err != nil {
		return err
	}
	v.office.mu.Lock()
	defer v.office.mu.Unlock()
	v.office.letters = append(v.office.letters, v.letter)
	return nil
}

func (v *visit) Reset() { v.letter.to, v.letter.text = nil, nil }

func (v *visit) Logout() error { return nil }

func (o *postOffice) got() []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]letter(nil), o.letters...)
}

// open starts the server; with implicit it speaks TLS from the beginning, without trust it speaks none.
func (o *postOffice) open(t *testing.T, implicit bool, authority *testcert.Authority) (port string) {
	t.Helper()
	s := smtp.NewServer(o)
	s.Domain, s.ErrorLog = "localhost", discard{}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if authority != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, testcert.Ask{DNS: []string{"localhost"}})}}
		if implicit {
			l = tls.NewListener(l, s.TLSConfig)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // its error is that of the listener, which is closed
	}()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// discard is a log that nobody reads.
type discard struct{}

func (discard) Printf(string, ...any) {}

func (discard) Println(...any) {}

// mailSink returns the sink of an endpoint; more is added to its settings.
func mailSink(t *testing.T, target string, authority *testcert.Authority, more map[string]any) sink.Sink {
	t.Helper()
	settings := map[string]any{"from": "Holter <holter@example.org>", "to": []string{"ops@example.org", "Night <night@example.org>"}, "rate": 1000}
	if authority != nil {
		settings["ca"] = string(authority.PEM())
	}
	maps.Copy(settings, more)
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return sinktest.New(t, notify.Kinds(sinktest.Guard(), "")["email"], target, string(text))
}

// Mail is sent with STARTTLS, with TLS, or without where the settings say so, and it is never sent, nor is a
// password, over a connection that should be secure and is not.
func TestMailConnections(t *testing.T) {
	authority, other := testcert.New(t), testcert.New(t)
	login := map[string]any{"username": "holter", "password": "SECRET-password"}
	for _, c := range []struct {
		name, scheme, host string
		implicit           bool
		serves, trusts     *testcert.Authority
		more               map[string]any
		want               string // in the error
	}{
		{"starttls", "smtp", "localhost", false, authority, authority, login, ""},
		{"tls", "smtps", "localhost", true, authority, authority, login, ""},
		{"starttls without login", "smtp", "localhost", false, authority, authority, nil, ""},
		{"plaintext", "smtp", "localhost", false, nil, nil, map[string]any{"plaintext": true}, ""},
		{"no starttls", "smtp", "localhost", false, nil, authority, login, "does not support STARTTLS"},
		{"strange certificate", "smtp", "localhost", false, authority, other, login, "certificate"},
		{"strange certificate of tls", "smtps", "localhost", true, authority, other, login, "certificate"},
		{"wrong password", "smtp", "localhost", false, authority, authority, map[string]any{"username": "holter", "password": "SECRET-other"}, "535"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &postOffice{}
			port := o.open(t, c.implicit, c.serves)
			s := mailSink(t, c.scheme+"://"+c.host+":"+port, c.trusts, c.more)
			r := deliver(t, s, about("pump-3", 1, liveness.DeviceOffline))[0]
			got := o.got()
			if c.want != "" {
				if r.Err == nil || r.Permanent || !strings.Contains(r.Err.Error(), c.want) || len(got) != 0 || strings.Contains(r.Err.Error(), "SECRET") {
					t.Errorf("%+v, %d mails, want an error with %q", r, len(got), c.want)
				}
				return
			}
			if r.Err != nil || r.Status != 250 || len(got) != 1 {
				t.Fatalf("%+v, %d mails", r, len(got))
			}
			if l := got[0]; l.secure != (c.serves != nil) || l.from != "holter@example.org" || strings.Join(l.to, " ") != "ops@example.org night@example.org" ||
				(l.user != "") != (c.more["username"] != nil) {
				t.Errorf("%+v", l)
			}
		})
	}
}

// What the server refuses for good is not tried again, if it is the mail and not the settings.
func TestMailAnswers(t *testing.T) {
	answer := func(command string, code int) func(string) error {
		return func(at string) error {
			if at == command {
				return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: "because"}
			}
			return nil
		}
	}
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"MAIL", 451, "f"},
		{"MAIL", 530, "f"},
		{"RCPT", 450, "f"},
		{"RCPT", 550, "f"},
		{"DATA", 452, "f"},
		{"DATA", 554, "x"},
	} {
		t.Run(c.command, func(t *testing.T) {
			o := &postOffice{fail: answer(c.command, c.code)}
			s := mailSink(t, "smtp://localhost:"+o.open(t, false, nil), nil, map[string]any{"plaintext": true})
			results := deliver(t, s, about("pump-3", 1, liveness.DeviceOffline))
			if got := sinktest.Fates(results); got != c.want || results[0].Status != c.code || len(o.got()) != 0 {
				t.Errorf("%d: %s, %+v, want %s", c.code, got, results[0], c.want)
			}
		})
	}
}

// headers returns the header of a mail, and its text.
func headers(t *testing.T, l *letter) (mail.Header, string) {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(l.text))
	if err != nil {
		t.Fatalf("%v: %s", err, l.text)
	}
	text, err := io.ReadAll(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, string(text)
}

// A device's name adds no header to a mail. A repetition has the same id, and what is about one device is
// one conversation.
func TestMailHeaders(t *testing.T) {
	o := &postOffice{}
	s := mailSink(t, "smtp://127.0.0.1:"+o.open(t, false, nil), nil, map[string]any{"plaintext": true, "title": "{{.Device}}\r\nBcc: evil@example.org", "console": "https://h.example"})
	hostile := "x\r\nBcc: evil@example.org\r\n\r\nbody é" // no device can have this id, but a job may say so
	for _, m := range []sink.Message{
		about("pump-é", 1, liveness.DeviceOffline), about("pump-é", 1, liveness.DeviceOffline), about("pump-é", 2, liveness.DeviceOnline), about("other", 1, liveness.DeviceOnline),
		about(hostile, 1, liveness.DeviceFailed),
	} {
		deliverAtLast(t, s, m)
	}
	deliverAtLast(t, s, about("a", 1, liveness.DeviceOffline), about("b", 1, liveness.DeviceOffline))
	var ids, conversations []string
	for i, l := range o.got() {
		h, _ := headers(t, &l)
		subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
		if h.Get("Bcc") != "" || err != nil || len(l.to) != 2 || h.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("mail %d: %v, %v", i, h, err)
		}
		if i == 0 && subject != "pump-é Bcc: evil@example.org" || i == 5 && subject != "2 devices offline" {
			t.Errorf("subject %q", subject)
		}
		ids, conversations = append(ids, h.Get("Message-ID")), append(conversations, h.Get("References"))
	}
	if len(ids) != 6 || ids[0] != ids[1] || ids[1] == ids[2] || ids[2] == ids[3] || !strings.HasSuffix(ids[0], ".holter@example.org>") {
		t.Errorf("ids %q", ids)
	}
	if conversations[0] == "" || conversations[0] != conversations[2] || conversations[2] == conversations[3] || conversations[5] != "" {
		t.Errorf("conversations %q", conversations)
	}
	if _, text := headers(t, &o.got()[5]); !strings.Contains(text, "a\r\n") && !strings.Contains(text, "a Bcc") {
		t.Errorf("text %q", text)
	}
}

// A server that does not answer holds nobody up, and a private one is not connected to.
func TestMailNowhere(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := mailSink(t, "smtp://127.0.0.1:"+port, nil, map[string]any{"plaintext": true})
	if r := s.Deliver(ctx, []sink.Message{about("d", 1, liveness.DeviceOffline)})[0]; r.Permanent || !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Errorf("silent: %+v", r)
	}
	guarded, err := notify.Kinds(sink.NewGuard(nil), "")["email"]("smtp://127.0.0.1:"+port, json.RawMessage(`{"from":"a@b.example","to":["c@d.example"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = guarded.Close() }()
	if r := deliver(t, guarded, about("d", 1, liveness.DeviceOffline))[0]; !errors.Is(r.Err, sink.ErrPrivate) {
		t.Errorf("private: %+v", r)
	}
}
