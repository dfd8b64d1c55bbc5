package testmqtt

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// patience bounds the start of a broker on a busy machine.
const patience = 60 * time.Second

// Files are the names of PEM files: a certificate authority, and a client's certificate and key.
type Files struct{ CA, Cert, Key string }

// Options are the options of a mosquitto. The zero value allows all clients, has one listener and
// no persistence.
type Options struct {
	// Users are passwords by user name. Without users, all clients may connect.
	Users map[string]string
	// ACL are lines of an access control list: "user ada", "topic write a/#". Without them,
	// everything is allowed.
	ACL []string
	// TLS adds a listener with TLS, see [Server.TLSURL] and [Server.Files].
	TLS bool
	// ClientCert makes that listener require a client certificate.
	ClientCert bool
	// WebSocket adds a listener for WebSockets, and with TLS one for WebSockets over TLS.
	WebSocket bool
	// Lines are appended to the configuration: "max_inflight_messages 1".
	Lines []string
}

// Server is a running mosquitto. Its methods are for the test's goroutine and fail the test on
// errors.
type Server struct {
	tb      testing.TB
	opt     Options
	program string
	dir     string
	files   Files
	ports   struct{ tcp, tls, ws, wss int }
	shell   *exec.Cmd // nil while the broker is not running
	leash   io.WriteCloser
	pid     int
}

// Mosquitto starts a mosquitto that ends with the test. Its log is shown if the test fails.
func Mosquitto(tb testing.TB, opt Options) *Server {
	tb.Helper()
	program := testenv.Program(tb, "mosquitto")
	s := &Server{tb: tb, opt: opt, program: program, dir: tb.TempDir()}
	tb.Cleanup(s.end)
	if opt.TLS {
		s.writeCertificates()
	}
	if err := s.start(true); err != nil {
		tb.Fatal(err)
	}
	return s
}

// writeCertificates writes a certificate authority, and a certificate of the server and of a client.
func (s *Server) writeCertificates() {
	s.tb.Helper()
	authority := testcert.New(s.tb)
	s.files.CA = testcert.Write(s.tb, s.dir, "ca.pem", authority.PEM())
	for _, name := range []string{"server", "client"} {
		cert, key := testcert.PEM(s.tb, authority.Issue(s.tb, testcert.Ask{Name: name, DNS: []string{"localhost"}}))
		s.files.Cert = testcert.Write(s.tb, s.dir, name+".pem", cert)
		s.files.Key = testcert.Write(s.tb, s.dir, name+".key", key)
	}
}

// Addr is the host and port of the plain listener.
func (s *Server) Addr() string { return address(s.ports.tcp) }

// URL is the URL of the plain listener.
func (s *Server) URL() string { return "tcp://" + s.Addr() }

// TLSURL is the URL of the listener with TLS.
func (s *Server) TLSURL() string { return "ssl://" + address(s.ports.tls) }

// WebSocketURL is the URL of the listener for WebSockets.
func (s *Server) WebSocketURL() string { return "ws://" + address(s.ports.ws) + "/mqtt" }

// SecureWebSocketURL is the URL of the listener for WebSockets over TLS.
func (s *Server) SecureWebSocketURL() string { return "wss://" + address(s.ports.wss) + "/mqtt" }

// Files are the certificate authority of the listeners with TLS and a certificate that they accept.
func (s *Server) Files() Files { return s.files }

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// Kill kills the broker, as a crash would.
func (s *Server) Kill() {
	if s.shell == nil {
		return
	}
	_, _ = io.WriteString(s.leash, "KILL\n") // the shell waits for it, or for the end of its input
	_ = s.leash.Close()
	_ = s.shell.Wait() // its status is that of its last command
	s.shell = nil
}

// Restart starts the broker again on the same ports, and kills it before if it is running.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.start(false); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop suspends the broker's process: connections stay open, and nothing answers.
func (s *Server) Stop() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
}

// Cont continues a suspended broker.
func (s *Server) Cont() {
	s.tb.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if s.shell == nil {
		s.tb.Fatal("testmqtt: the broker is not running")
	}
	if err := syscall.Kill(s.pid, sig); err != nil {
		s.tb.Fatalf("testmqtt: signal mosquitto: %v", err)
	}
}

// Log returns the broker's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (s *Server) logEnd() string {
	log := s.Log()
	return log[max(len(log)-4000, 0):]
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// configure writes the configuration. With fresh it chooses new ports.
func (s *Server) configure(ctx context.Context, fresh bool) error {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	line("log_dest stderr\nlog_type error\nlog_type warning\nlog_type notice\nlog_type information\nlog_timestamp_format %%H:%%M:%%S")
	line("allow_anonymous %t", len(s.opt.Users) == 0)
	line("persistence false")
	if os.Geteuid() == 0 {
		line("user root") // it cannot read its files otherwise
	}
	if len(s.opt.Users) > 0 {
		line("password_file %s", s.path("users"))
		if err := s.writeUsers(); err != nil {
			return err
		}
	}
	if len(s.opt.ACL) > 0 {
		line("acl_file %s", s.path("acl"))
		if err := os.WriteFile(s.path("acl"), []byte(strings.Join(s.opt.ACL, "\n")+"\n"), 0o600); err != nil {
			return err
		}
	}
	for _, l := range s.opt.Lines {
		line("%s", l)
	}
	for _, l := range s.listeners() {
		if fresh {
			port, err := testenv.FreePort(ctx)
			if err != nil {
				return err
			}
			*l.port = port
		}
		line("listener %d 127.0.0.1\nprotocol %s", *l.port, l.protocol)
		if l.tls {
			line("cafile %s\ncertfile %s\nkeyfile %s\nrequire_certificate %t", s.files.CA, s.path("server.pem"), s.path("server.key"), s.opt.ClientCert)
		}
	}
	return os.WriteFile(s.path("mosquitto.conf"), []byte(text.String()), 0o600)
}

type listener struct {
	port     *int
	protocol string
	tls      bool
}

func (s *Server) listeners() []listener {
	list := []listener{{&s.ports.tcp, "mqtt", false}}
	if s.opt.TLS {
		list = append(list, listener{&s.ports.tls, "mqtt", true})
	}
	if s.opt.WebSocket {
		list = append(list, listener{&s.ports.ws, "websockets", false})
	}
	if s.opt.TLS && s.opt.WebSocket {
		list = append(list, listener{&s.ports.wss, "websockets", true})
	}
	return list
}

// writeUsers writes the password file as mosquitto_passwd does: PBKDF2 with SHA-512.
func (s *Server) writeUsers() error {
	const rounds = 101
	var text strings.Builder
	for _, user := range slices.Sorted(maps.Keys(s.opt.Users)) {
		salt := make([]byte, 12)
		if _, err := rand.Read(salt); err != nil {
			return err
		}
		hash, err := pbkdf2.Key(sha512.New, s.opt.Users[user], salt, rounds, 64)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s:$7$%d$%s$%s\n", user, rounds, base64.StdEncoding.EncodeToString(salt), base64.StdEncoding.EncodeToString(hash))
	}
	return os.WriteFile(s.path("users"), []byte(text.String()), 0o600)
}

// start starts the broker and waits for it. With fresh it tries other ports if one was taken
// meanwhile.
func (s *Server) start(fresh bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := s.startOnce(ctx, fresh)
		if err == nil || !errors.Is(err, errEnded) || pause(ctx, 100*time.Millisecond) != nil || (fresh && !s.portTaken()) {
			return err
		}
	}
}

// portTaken reports whether the broker said that a port was taken.
func (s *Server) portTaken() bool {
	return strings.Contains(s.Log(), "in use") || strings.Contains(s.Log(), "Unable to create websockets listener")
}

// errEnded says that the broker ended during its start.
var errEnded = errors.New("it ended")

// leash is the shell script that runs a broker. At the end of its input it ends the broker and
// removes its directory. The broker may open as many files as the machine allows.
const leash = `log=$1; dir=$2; shift 2
ulimit -n $(ulimit -Hn) 2>/dev/null
"$@" </dev/null >>"$log" 2>&1 &
pid=$!
echo $pid
read -r word || word=end
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
[ $word != end ] || rm -rf "$dir"`

func (s *Server) startOnce(ctx context.Context, fresh bool) error {
	if err := s.configure(ctx, fresh); err != nil {
		return fmt.Errorf("testmqtt: configure mosquitto: %w", err)
	}
	//nolint:contextcheck // it lives on, and runs what the test names
	s.shell = exec.CommandContext(context.Background(), "/bin/sh", "-c", leash, "sh", s.path("log"), s.dir, s.program, "-c", s.path("mosquitto.conf"))
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	in, err := s.shell.StdinPipe()
	if err != nil {
		return err
	}
	out, err := s.shell.StdoutPipe()
	if err != nil {
		return err
	}
	s.leash = in
	if err := s.shell.Start(); err != nil {
		s.shell = nil
		return fmt.Errorf("testmqtt: start mosquitto: %w", err)
	}
	if _, err := fmt.Fscan(out, &s.pid); err != nil {
		s.Kill()
		return fmt.Errorf("testmqtt: start mosquitto: %w", err)
	}
	for {
		err := answers(ctx, s.Addr())
		if err == nil {
			return nil
		}
		if !s.running() {
			err = errEnded
		}
		if errors.Is(err, errEnded) || pause(ctx, 20*time.Millisecond) != nil {
			s.Kill()
			return fmt.Errorf("testmqtt: start mosquitto: %w; its log ends:\n%s", err, s.logEnd())
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answers connects to a broker, which may refuse but must answer.
func answers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	c.SetDeadline(deadline)
	if _, err := c.Write(appendConnect(nil, "testmqtt-ready", "")); err != nil {
		return err
	}
	var ack [4]byte
	if _, err := io.ReadFull(c, ack[:]); err != nil {
		return err
	}
	_, err = c.Write(disconnect)
	return err
}

// running reports whether the broker's process exists and is not a zombie.
func (s *Server) running() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return syscall.Kill(s.pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// end ends the broker.
func (s *Server) end() {
	s.Kill()
	if s.tb.Failed() {
		s.tb.Logf("mosquitto's log ends:\n%s", s.logEnd())
	}
}
