// Command receiver stands in for a mail server and for Slack while deploy/packaging/test/debian.sh runs: mail
// with STARTTLS at port 587, as user holter with the password XXXX, and Slack's incoming webhooks at port
// 443. Everything that it takes becomes a line of its output, "mail TO: SUBJECT" or "slack: TEXT"; what
// the real services would refuse is refused, with the reason in a line that begins with "REFUSED". Its
// certificate is signed by nobody else, and written to the file that is its argument.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/mail"
	"os"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: receiver FILE, which gets its certificate")
	}
	log.Fatal(run(os.Args[1]))
}

// run serves until one of the servers ends.
func run(file string) error {
	certificate, err := certify("hooks.slack.com", "mail.example.org")
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}} //nolint:gosec // Go's default
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // for everybody
		return err
	}
	post := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &visit{}, nil }))
	post.Addr, post.Domain, post.TLSConfig = ":587", "mail.example.org", config
	ended := make(chan error, 2)
	go func() { ended <- post.ListenAndServe() }()
	web := &http.Server{Addr: ":443", Handler: http.HandlerFunc(slack), TLSConfig: config, ReadHeaderTimeout: time.Minute}
	go func() { ended <- web.ListenAndServeTLS("", "") }()
	return <-ended
}

// certify makes a certificate that is its own authority.
func certify(names ...string) (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: names,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// slack answers as https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks says.
func slack(w http.ResponseWriter, r *http.Request) {
	text, err := slackText(r)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, "REFUSED slack:", err)
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	_, _ = fmt.Fprintf(os.Stdout, "slack: %q\n", text)
	_, _ = io.WriteString(w, "ok")
}

// slackText returns the text of a message, or what is wrong with the request.
func slackText(r *http.Request) (string, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/services/T000/B000/XXXX" {
		return "", fmt.Errorf("%s %s is no webhook", r.Method, r.URL.Path)
	}
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return "", fmt.Errorf("Content-Type is %q", kind)
	}
	if host := r.Host; host != "hooks.slack.com" {
		return "", fmt.Errorf("the header Host is %q", host)
	}
	return slackBody(http.MaxBytesReader(nil, r.Body, 1<<20))
}

// slackBody checks a message by https://docs.slack.dev/reference/block-kit/blocks/section-block.
func slackBody(r io.Reader) (string, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	var m struct {
		Text   string
		Mrkdwn bool
		Blocks []struct {
			Type string
			Text struct {
				Type, Text string
				Verbatim   bool
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return "", err
	}
	if m.Text == "" || len(m.Blocks) == 0 || len(m.Blocks) > 50 {
		return "", fmt.Errorf("no text, or not 1 to 50 blocks: %s", body)
	}
	for _, b := range m.Blocks {
		if b.Type != "section" || b.Text.Type != "mrkdwn" || b.Text.Text == "" || len(b.Text.Text) > 3000 {
			return "", fmt.Errorf("no section that Slack takes: %s", body)
		}
	}
	return m.Text, nil
}

// visit is a connection to the mail server.
type visit struct {
	known bool // it has logged in
	to    []string
}

func (*visit) AuthMechanisms() []string { return []string{sasl.Plain} }

func (v *visit) Auth(string) (sasl.Server, error) { //nolint:unparam // as smtp.AuthSession has it
	return sasl.NewPlainServer(func(_, user, password string) error {
		if v.known = user == "holter" && password == "XXXX"; !v.known {
			_, _ = fmt.Fprintln(os.Stdout, "REFUSED mail: wrong user or password")
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (v *visit) Mail(string, *smtp.MailOptions) error {
	if !v.known {
		_, _ = fmt.Fprintln(os.Stdout, "REFUSED mail: no login")
		return smtp.ErrAuthRequired
	}
	return nil
}

func (v *visit) Rcpt(to string, _ *smtp.RcptOptions) error {
	v.to = append(v.to, to)
	return nil
}

func (v *visit) Data(r io.Reader) error {
	letter, err := mail.ReadMessage(r)
	if err == nil && (letter.Header.Get("Message-Id") == "" || letter.Header.Get("Date") == "" || letter.Header.Get("From") == "") {
		err = errors.New("it has no Message-ID, Date or From")
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, "REFUSED mail:", err)
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "mail %s: %q\n", strings.Join(v.to, ","), letter.Header.Get("Subject"))
	return err
}

func (v *visit) Reset() { v.to = nil }

func (*visit) Logout() error { return nil }
