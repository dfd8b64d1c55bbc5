package gateway_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/packet"
)

// A process that is stopped hears nothing; that is not the devices' silence. What lay in the sockets counts, and who stays
// silent afterwards is judged.
func TestStoppedProcess(t *testing.T) { stopProcess(t, 3*time.Second) }

// TestSoakStoppedProcess stops it for much longer than any timeout.
func TestSoakStoppedProcess(t *testing.T) {
	testenv.Soak(t)
	stopProcess(t, 30*time.Second)
}

// stayer is a device whose process is stopped.
type stayer struct {
	conn   io.Writer
	hear   func() // an answer, or the end of the connection
	said   time.Time
	before time.Duration // for how long it was silent before the process was stopped
}

// silence returns for how long at most a device had been silent at an instant, of the time in which the process ran.
func (s *stayer) silence(at, continued time.Time) time.Duration {
	if s.said.Before(at) && s.said.After(continued) {
		return at.Sub(s.said)
	}
	return s.before + at.Sub(continued)
}

func stopProcess(t *testing.T, length time.Duration) {
	t.Helper()
	const timeout = 1500 * time.Millisecond
	k, dir := newKeys(t), t.TempDir()
	certPEM, keyPEM := testcert.PEM(t, k.server.Certificates[0])
	testcert.Write(t, dir, "server.pem", certPEM)
	testcert.Write(t, dir, "server.key", keyPEM)
	lines := func(d *device, id string) *stayer {
		d.say("HELLO " + id + " ttl=1.5\n")
		d.expect("OK …")
		return &stayer{conn: d.conn, hear: func() { d.hear() }}
	}
	for _, tt := range []struct {
		kind, beat string
		connect    func(r *rig, id string) *stayer
	}{
		{"gateway", "PING\n", func(r *rig, id string) *stayer { return lines(r.dial(), id) }},
		{"tls", "PING\n", func(r *rig, id string) *stayer { return lines(r.dialTLS(k), id) }},
		{"mqtt", string(packet.AppendPingreq(nil)), func(r *rig, id string) *stayer {
			c := r.mqtt().welcome(withWill(mqttDevice(id, 1))) // a timeout of 1.5 s
			return &stayer{conn: c.conn, hear: func() { c.next() }}
		}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			c := startChild(t, tt.kind, 1024, certEnv+"="+dir)
			r, fleet := c.rig(), make(map[string]*stayer)
			connect := func(id string) *stayer {
				began := time.Now()
				d := tt.connect(r, id)
				d.said = began
				return d
			}
			for i := range 20 {
				id := fmt.Sprint("d-", i)
				fleet[id] = connect(id)
			}
			dead := connect("dead")
			if err := c.cmd.Process.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			stopped, half := time.Now(), false
			dead.before = stopped.Sub(dead.said)
			for _, d := range fleet {
				d.before = stopped.Sub(d.said)
				if half = !half; half { // it is heard when the process goes on
					_, _ = io.WriteString(d.conn, tt.beat)
					d.before = 0
				}
			}
			<-time.After(length)
			continued := time.Now()
			if err := c.cmd.Process.Signal(unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			judged := make(chan struct{})
			go func() {
				defer close(judged)
				dead.hear()
			}()
			for alive := true; alive; {
				for _, d := range fleet {
					if _, err := io.WriteString(d.conn, tt.beat); err != nil {
						continue
					}
					if d.said.Before(continued) {
						d.said = time.Now()
					}
					d.hear()
				}
				select {
				case <-judged:
					alive = false
				case <-time.After(100 * time.Millisecond):
				}
			}
			fleet["dead"] = dead
			deaf, died := time.Duration(0), false
			for _, e := range c.end() {
				switch e.Type {
				case liveness.SourceDeaf:
					deaf = max(deaf, e.Deaf)
				case liveness.DeviceOffline:
					died = died || e.Subject == "dead"
					if s := fleet[e.Subject].silence(e.Time, continued); e.Timeout != timeout || s < timeout {
						t.Errorf("%s was judged offline after %v, want %v at least; the process was stopped for %v", e.Subject, s, e.Timeout, length)
					}
				default:
				}
			}
			if deaf < length-2*time.Second || !died {
				t.Errorf("the longest deaf time is %v of %v; whoever stays silent was judged: %t", deaf, length, died)
			}
		})
	}
}
