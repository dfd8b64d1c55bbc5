package jetstream_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/jetstream"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// A batch arrives in its order, and once, however often it is delivered.
func TestDeliver(t *testing.T) {
	b := newBroker(t, nil)
	b.stream(fleet())
	s := open(t, b.url(), `{"subject":"holter.{group}.{device}.{type}","batch":100,"timeout_ms":5000}`)
	batch := []sink.Message{message("dev-1", 1), message("a.b*c>d $e", 1), {ID: "job 1%", ContentType: "application/json", Data: []byte(`{}`)}}
	for range 3 {
		must(t, s, batch...)
	}
	var got []string
	for _, m := range b.stored() {
		got = append(got, strings.Join([]string{m.Subject, m.Header.Get(natsjs.MsgIDHeader), m.Header.Get("Content-Type"), string(m.Data)}, " "))
	}
	want := []string{
		"holter.site_7.dev-1.device.offline holter.site_7.dev-1.device.offline dev-1:1 " + cloudevent.ContentType + ` {"id":"dev-1:1"}`,
		"holter.site_7.a_b_c_d__e.device.offline holter.site_7.a_b_c_d__e.device.offline a.b*c>d%20$e:1 " + cloudevent.ContentType + ` {"id":"a.b*c>d $e:1"}`,
		"holter.-.-.job holter.-.-.job job%201%25 application/json {}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the stream has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An answer that is lost makes the message be delivered again, and it is in the stream once.
func TestLostAnswer(t *testing.T) {
	b := newBroker(t, nil)
	b.stream(fleet())
	p := newProxy(t, b.address())
	s := open(t, "nats://"+p.Addr().String(), "")
	must(t, s, message("dev-1", 1))
	p.setDeaf(true)
	if r := deliver(t, s, plenty, message("dev-1", 2)); r[0].Err == nil || r[0].Permanent {
		t.Errorf("without an answer: %+v", r)
	}
	<-p.heard
	p.setDeaf(false)
	must(t, s, message("dev-1", 2))
	must(t, s, message("dev-1", 3))
	if got := idsOf(b); !slices.Equal(got, []string{"dev-1:1", "dev-1:2", "dev-1:3"}) {
		t.Errorf("the stream has %q", got)
	}
}

// Two endpoints with subjects of their own in one stream: neither's messages are repetitions of the other's.
func TestTwoEndpointsOneStream(t *testing.T) {
	b := newBroker(t, nil)
	b.stream(fleet())
	must(t, open(t, b.url(), `{"subject":"holter.plant.{type}"}`), message("dev-1", 1))
	must(t, open(t, b.url(), `{"subject":"holter.office.{type}"}`), message("dev-1", 1))
	if got := idsOf(b); !slices.Equal(got, []string{"dev-1:1", "dev-1:1"}) {
		t.Errorf("two deliveries are done, and the stream has %q", got)
	}
}

// idsOf returns the ids in the stream.
func idsOf(b *broker) []string {
	var ids []string
	for _, m := range b.stored() {
		_, id, _ := strings.Cut(m.Header.Get(natsjs.MsgIDHeader), " ")
		ids = append(ids, id)
	}
	return ids
}

// A server that is not there yet, and one that is started again.
func TestRestart(t *testing.T) {
	b := newBroker(t, nil)
	b.stream(fleet())
	b.stop()
	s := open(t, b.url(), "")
	if r := deliver(t, s, plenty, message("dev-1", 1)); r[0].Err == nil || r[0].Permanent || !strings.Contains(r[0].Err.Error(), "connection refused") {
		t.Errorf("no server: %+v", r)
	}
	b.start()
	must(t, s, message("dev-1", 1))
	b.stop()
	if r := deliver(t, s, plenty, message("dev-1", 2)); r[0].Err == nil || r[0].Permanent {
		t.Errorf("the server has stopped: %+v", r)
	}
	b.start()
	must(t, s, message("dev-1", 2))
	if got := idsOf(b); !slices.Equal(got, []string{"dev-1:1", "dev-1:2"}) {
		t.Errorf("the stream has %q", got)
	}
}

// What has the same key stays in order, and all of it arrives once, while connections break.
func TestOrder(t *testing.T) {
	const devices, each, cuts = 8, 60, 10
	b := newBroker(t, nil)
	b.stream(fleet())
	p := newProxy(t, b.address())
	s := open(t, "nats://"+p.Addr().String(), "")
	var arrived atomic.Int64
	var delivering sync.WaitGroup
	for d := range devices {
		delivering.Go(func() {
			for n := range each {
				for deliver(t, s, plenty, message(fmt.Sprintf("dev-%d", d), n))[0].Err != nil {
					if t.Context().Err() != nil {
						return
					}
				}
				if arrived.Add(1)%(devices*each/cuts) == 0 {
					p.cut()
				}
			}
		})
	}
	delivering.Wait()
	next := make(map[string]int)
	for _, id := range idsOf(b) {
		device, _, _ := strings.Cut(id, ":")
		if want := fmt.Sprintf("%s:%d", device, next[device]); id != want {
			t.Fatalf("%s comes where %s was expected", id, want)
		}
		next[device]++
	}
	for device, n := range next {
		if n != each {
			t.Errorf("of %s there are %d, want %d", device, n, each)
		}
	}
	if len(next) != devices {
		t.Errorf("%d devices, want %d", len(next), devices)
	}
}

// What cannot be delivered says why, and holds up nothing else of its batch.
func TestFailure(t *testing.T) {
	b := newBroker(t, func(o *server.Options) { o.MaxPayload = 4096 })
	large := func(n int) sink.Message {
		m := message("dev-2", 1)
		m.Data = []byte(strings.Repeat("x", n))
		return m
	}
	for _, c := range []struct {
		name      string
		bad       sink.Message
		permanent bool
		text      string
	}{
		{"no stream", message("nobody", 1), false, `no stream takes the subject "holter.nobody"`},
		{"too large for the server", large(5000), true, "larger than the server allows"},
		{"too large for the stream", large(3000), true, "larger than the stream allows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t, func(o *server.Options) { o.MaxPayload = b.options.MaxPayload })
			b.stream(natsjs.StreamConfig{Name: "FLEET", Subjects: []string{"holter.dev-1", "holter.dev-2", "holter.dev-3"}, MaxMsgSize: 1000})
			s := open(t, b.url(), `{"subject":"holter.{device}"}`)
			r := deliver(t, s, plenty, message("dev-1", 1), c.bad, message("dev-3", 1))
			if r[0].Err != nil || r[2].Err != nil {
				t.Errorf("the others: %+v", r)
			}
			if r[1].Err == nil || r[1].Permanent != c.permanent || !strings.Contains(r[1].Err.Error(), c.text) {
				t.Errorf("%+v, want permanent %v: %s", r[1], c.permanent, c.text)
			}
			if got := idsOf(b); !slices.Equal(got, []string{"dev-1:1", "dev-3:1"}) {
				t.Errorf("the stream has %q", got)
			}
		})
	}
}

// A stream that is made later gets what had failed.
func TestStreamLater(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b.url(), "")
	if r := deliver(t, s, plenty, message("dev-1", 1)); r[0].Err == nil || r[0].Permanent {
		t.Errorf("no stream: %+v", r)
	}
	b.stream(fleet())
	must(t, s, message("dev-1", 1))
}

// credentials returns what a server trusts, and the .creds file of one of its users.
func credentials(t *testing.T) (o server.Options, text string) {
	t.Helper()
	pair := func(create func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, public string) {
		key, err := create()
		if err != nil {
			t.Fatal(err)
		}
		if public, err = key.PublicKey(); err != nil {
			t.Fatal(err)
		}
		return key, public
	}
	operator, trusted := pair(nkeys.CreateOperator)
	account, accountName := pair(nkeys.CreateAccount)
	user, userName := pair(nkeys.CreateUser)
	accountJWT, err := jwt.NewAccountClaims(accountName).Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	userJWT, err := jwt.NewUserClaims(userName).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(userJWT, seed)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountName, accountJWT); err != nil {
		t.Fatal(err)
	}
	return server.Options{TrustedKeys: []string{trusted}, AccountResolver: resolver}, string(file)
}

// Who is let in hears that there is no stream; who is not, hears that.
func TestLogin(t *testing.T) {
	authority := testcert.New(t)
	certificate := authority.Issue(t, testcert.Ask{})
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	strange, err := stranger.Seed()
	if err != nil {
		t.Fatal(err)
	}
	trusting, creds := credentials(t)
	_, otherCreds := credentials(t)
	quote := func(text string) string {
		out, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	password := func(o *server.Options) { o.Username, o.Password = "holter", "right" }
	token := func(o *server.Options) { o.Authorization = "right" }
	nkey := func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }
	trust := func(o *server.Options) {
		o.JetStream, o.TrustedKeys, o.AccountResolver = false, trusting.TrustedKeys, trusting.AccountResolver
	}
	secure := func(o *server.Options) {
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	ca := quote(string(authority.PEM()))
	const in = "no stream takes the subject"
	for _, c := range []struct {
		name     string
		server   func(*server.Options)
		scheme   string
		settings string
		want     string
	}{
		{"password", password, "nats", `{"username":"holter","password":"right"}`, in},
		{"wrong password", password, "nats", `{"username":"holter","password":"wrong"}`, "Authorization Violation"},
		{"nothing", password, "nats", "", "Authorization Violation"},
		{"token", token, "nats", `{"token":"right"}`, in},
		{"wrong token", token, "nats", `{"token":"wrong"}`, "Authorization Violation"},
		{"nkey", nkey, "nats", `{"seed":` + quote(string(seed)) + `}`, in},
		{"unknown nkey", nkey, "nats", `{"seed":` + quote(string(strange)) + `}`, "Authorization Violation"},
		{"credentials", trust, "nats", `{"credentials":` + quote(creds) + `}`, in},
		{"credentials of another", trust, "nats", `{"credentials":` + quote(otherCreds) + `}`, "Authorization Violation"},
		{"TLS", secure, "tls", `{"ca":` + ca + `}`, in},
		{"TLS that the server asks for", secure, "nats", `{"ca":` + ca + `}`, in},
		{"TLS that is not trusted", secure, "tls", "", "certificate signed by unknown authority"},
		{"TLS that is not there", nil, "tls", `{"ca":` + ca + `}`, "secure connection not available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t, c.server)
			r := deliver(t, open(t, c.scheme+"://"+b.address(), c.settings), plenty, message("dev-1", 1))
			if r[0].Err == nil || r[0].Permanent || !strings.Contains(r[0].Err.Error(), c.want) {
				t.Errorf("%+v, want %s", r[0], c.want)
			}
		})
	}
}

// A user who may not publish is told so.
func TestPermission(t *testing.T) {
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "holter", Password: "right", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"holter.>"}},
		}}}
	})
	s := open(t, b.url(), `{"username":"holter","password":"right"}`)
	r := deliver(t, s, 500*time.Millisecond, message("dev-1", 1))
	if r[0].Err == nil || r[0].Permanent || !strings.Contains(strings.ToLower(r[0].Err.Error()), "permissions violation for publish") {
		t.Errorf("%+v", r[0])
	}
}

// One of several servers is enough.
func TestSeveral(t *testing.T) {
	b := newBroker(t, nil)
	b.stream(fleet())
	s := open(t, "nats://127.0.0.1:1,"+b.address(), "")
	must(t, s, message("dev-1", 1))
}

// A delivery ends with its context, whatever the server does, and Close does not wait for it either.
func TestGivenUp(t *testing.T) {
	b := newBroker(t, nil)
	b.stream(natsjs.StreamConfig{Name: "FLEET", Subjects: []string{"holter.other"}})
	for _, c := range []struct{ name, target string }{
		{"says nothing at all", "nats://" + silent(t)},
		{"does not answer", b.url()},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, c.target, "")
			if c.target == b.url() { // a listener that is no stream: nobody says that it was stored
				b.ask(func(ctx context.Context, js natsjs.JetStream) error {
					sub, err := js.Conn().SubscribeSync("holter.>")
					if err != nil {
						return err
					}
					if err := js.Conn().Flush(); err != nil {
						return err
					}
					ctx, cancel := context.WithCancel(ctx)
					var delivering sync.WaitGroup
					delivering.Go(func() {
						if r := s.Deliver(ctx, []sink.Message{message("dev-1", 1)}); !errors.Is(r[0].Err, context.Canceled) {
							t.Errorf("%+v", r[0])
						}
					})
					_, err = sub.NextMsg(plenty)
					cancel()
					delivering.Wait()
					return err
				})
				return
			}
			if r := deliver(t, s, 200*time.Millisecond, message("dev-1", 1)); !errors.Is(r[0].Err, context.DeadlineExceeded) || r[0].Permanent {
				t.Errorf("%+v", r[0])
			}
		})
	}
}

// A delivery that we end while the server takes no bytes says so of each message.
func TestStalled(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := open(t, "nats://"+l.Addr().String(), "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := make(chan struct{})
	var serving sync.WaitGroup
	defer serving.Wait()
	defer close(end)
	serving.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "INFO {\"headers\":true,\"max_payload\":%d}\r\n", 2<<20)
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if lines.Text() == "PING" {
				break
			}
		}
		_, _ = io.WriteString(conn, "PONG\r\n")
		_, _ = io.CopyN(io.Discard, conn, 1<<20) // it is being published to
		cancel()
		<-end
	})
	var batch []sink.Message
	for i := range 100 {
		m := message("dev-1", i)
		m.Data = bytes.Repeat([]byte("a"), 1<<20)
		batch = append(batch, m)
	}
	for i, r := range s.Deliver(ctx, batch) {
		if !errors.Is(r.Err, context.Canceled) || r.Permanent {
			t.Errorf("message %d: %+v, want context.Canceled", i, r)
		}
	}
}

// A private server is refused, as all private addresses are.
func TestPrivate(t *testing.T) {
	b := newBroker(t, nil)
	s, err := jetstream.Kind(sink.NewGuard(nil))(b.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if r := deliver(t, s, plenty, message("dev-1", 1)); !errors.Is(r[0].Err, sink.ErrPrivate) {
		t.Errorf("%+v", r[0])
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct{ name, target, settings, want string }{
		{"no scheme", "127.0.0.1:4222", "", "target: "},
		{"another scheme", "http://a", "", "nats://HOST:4222"},
		{"no host", "nats://", "", "no server"},
		{"password in the target", "nats://u:p@a", "", "settings"},
		{"a path", "nats://a/b", "", "target: "},
		{"unknown setting", "nats://a", `{"subjct":"a"}`, "subjct"},
		{"wildcard", "nats://a", `{"subject":"holter.*"}`, "invalid subject"},
		{"empty token", "nats://a", `{"subject":"holter..a"}`, "invalid subject"},
		{"unknown name in braces", "nats://a", `{"subject":"holter.{typ}"}`, "{device}"},
		{"the server's subjects", "nats://a", `{"subject":"$JS.API.STREAM.DELETE.FLEET"}`, "belongs to the server"},
		{"long subject", "nats://a", `{"subject":"` + strings.Repeat("x", 513) + `"}`, "512"},
		{"two ways to log in", "nats://a", `{"username":"a","password":"b","token":"c"}`, "want one of"},
		{"no seed", "nats://a", `{"seed":"SUA"}`, "seed"},
		{"no credentials", "nats://a", `{"credentials":"x"}`, ".creds"},
		{"no certificate", "nats://a", `{"ca":"x"}`, "PEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := jetstream.Kind(sinktest.Guard())(c.target, json.RawMessage(c.settings)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Secrets are not shown.
func TestSecrets(t *testing.T) {
	for _, name := range []string{"password", "token", "seed", "credentials"} {
		if got := string(delivery.HideSecrets(json.RawMessage(`{"` + name + `":"abc"}`))); strings.Contains(got, "abc") {
			t.Errorf("%s is shown: %s", name, got)
		}
	}
}
