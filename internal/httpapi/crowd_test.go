package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
)

// addressed is the server's end of a connection from an address.
type addressed struct {
	net.Conn

	from string
}

func (a addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from + ":40000"))
}

// dialFrom connects from an address.
func (p *pipe) dialFrom(from string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.dialed <- addressed{server, from}:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// ask connects from an address and returns the status of the answer to a request.
func (p *pipe) ask(t *testing.T, from, request string) int {
	t.Helper()
	c, err := p.dialFrom(from)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// besieged serves while twice as many strangers as there are places hold a request each from one
// address, and come back when they are closed.
func besieged(t *testing.T, s interface {
	Serve(ctx context.Context, l net.Listener) error
}, strangers int, text string,
) *pipe {
	t.Helper()
	p := newPipe()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, p) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for range strangers {
		go func() {
			for ctx.Err() == nil {
				c, err := p.dialFrom("192.0.2.66")
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text) // it is closed meanwhile, or not
				<-ctx.Done()
			}
		}()
	}
	synctest.Wait()
	return p
}

// TestStrangersHoldNoPlaces: requests of one address that have no end, or may not be asked, keep
// neither others out nor the latest of the address, and cost no request that may be asked its
// connection.
func TestStrangersHoldNoPlaces(t *testing.T) {
	const holder = "POST /v1/devices/dev/send HTTP/1.1\r\nHost: holter\r\nAuthorization: Bearer s3cret\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"text\":\"hi\"}"
	for name, text := range map[string]string{
		"half a header":                "GET / HTTP/1.1\r\nX: ",
		"half a body without a token":  "POST /v1/devices/dev/send HTTP/1.1\r\nHost: holter\r\nContent-Length: 100\r\n\r\n{",
		"half a body with a wrong one": "POST /v1/devices/dev/send HTTP/1.1\r\nHost: holter\r\nAuthorization: Bearer guess\r\nContent-Length: 100\r\n\r\n{",
		"half a body for nothing":      "POST /nothing HTTP/1.1\r\nHost: holter\r\nContent-Length: 100\r\n\r\n{",
		"half a login":                 "POST /v1/session HTTP/1.1\r\nHost: holter\r\nContent-Length: 100\r\n\r\n{",
		"an answer that is not read":   "GET /healthz HTTP/1.1\r\nHost: holter\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, liveness.Config{}, 0)
				f.open("dev")
				known := &secrets{known: map[string]auth.Role{"s3cret": auth.RoleAdmin}}
				const places = 64
				p := besieged(t, f.api(httpapi.Config{Auth: known, MaxConnections: places, Sender: &post{wait: 4 * time.Second}}), 2*places, text)
				began, long := time.Now(), make(chan int, 1)
				go func() { long <- p.ask(t, "192.0.2.1", holder) }()
				for _, from := range []string{"192.0.2.1", "192.0.2.66"} {
					if status := p.ask(t, from, "GET /healthz HTTP/1.1\r\nHost: holter\r\n\r\n"); status != http.StatusOK {
						t.Errorf("%d from %s", status, from)
					}
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("answered after %v", took)
				}
				time.Sleep(time.Second)
				for range 2 * places {
					p.ask(t, "192.0.2.66", "GET /healthz HTTP/1.1\r\nHost: holter\r\n\r\n")
				}
				if status := <-long; status != http.StatusOK {
					t.Errorf("the request of a token holder, which takes long: %d", status)
				}
			})
		})
	}
}

// TestStrangersAtStandby: nor do they at a server that stands by.
func TestStrangersAtStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roster := cluster.NewRoster(cluster.Member{Node: "standby"})
		s := httpapi.NewStandby(roster, http.DefaultTransport, nil, slog.New(slog.DiscardHandler), func() string { return "it is a test" })
		p := besieged(t, s, 5000, "GET / HTTP/1.1\r\nX: ")
		began := time.Now()
		if status := p.ask(t, "192.0.2.1", "GET /healthz HTTP/1.1\r\nHost: holter\r\n\r\n"); status != http.StatusOK {
			t.Errorf("%d", status)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}
