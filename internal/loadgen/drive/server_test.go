package drive_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// seenEvent is something that the server noticed.
type seenEvent struct {
	id, what string // hello, beat, bye, sleep, birth, closed, reset
	at       time.Time
	from     string // the address of the device
}

// server is a small gateway, one goroutine for each connection, that speaks both protocols and can be told to fail.
type server struct {
	t    *testing.T
	ln   net.Listener
	mqtt bool
	wg   sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	conns   map[net.Conn]bool
	current map[string]net.Conn
	events  []seenEvent
	greet   func(id string, times int) string // what is done with a greeting: "" welcomes
	pong    func(id string) string            // what is done with a heartbeat: "" answers
	keepOld bool                              // does not close a connection that is replaced
	hellos  map[string]int
}

func newServer(t *testing.T, address string, mqtt bool) *server {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, ln: ln, mqtt: mqtt, conns: map[net.Conn]bool{}, current: map[string]net.Conn{}, hellos: map[string]int{},
		greet: func(string, int) string { return "" }, pong: func(string) string { return "" },
	}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

func (s *server) address() string { return s.ln.Addr().String() }

func (s *server) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(conn)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			conn.Close()
		})
	}
}

// stop ends all, for good.
func (s *server) stop() {
	s.ln.Close()
	s.hang(false)
	s.wg.Wait()
}

// hang ends all connections.
func (s *server) hang(reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
	}
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) note(id, what string, conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, seenEvent{id: id, what: what, at: time.Now(), from: conn.RemoteAddr().String()})
}

// of returns what was noticed of a device.
func (s *server) of(id string) []seenEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e seenEvent) bool { return e.id != id })
}

func (s *server) count(id, what string) int {
	n := 0
	for _, e := range s.of(id) {
		if e.what == what {
			n++
		}
	}
	return n
}

// packet is a message of a device, of either protocol.
type packet struct{ kind, id, text string }

func (s *server) serve(conn net.Conn) {
	in := bufio.NewReaderSize(conn, 4096)
	read := readLine
	if s.mqtt {
		read = readMQTT
	}
	hello, err := read(in)
	if err != nil {
		return
	}
	if hello.kind != "hello" {
		s.t.Errorf("the first packet is %+v", hello)
		return
	}
	id := hello.id
	s.note(id, "hello", conn)
	s.mu.Lock()
	s.hellos[id]++
	order := s.greet(id, s.hellos[id])
	if old := s.current[id]; old != nil && order == "" && !s.keepOld {
		old.Close()
	}
	s.current[id] = conn
	s.mu.Unlock()
	if !s.answer(conn, order, s.welcome()) {
		return
	}
	for {
		p, err := read(in)
		switch {
		case errors.Is(err, syscall.ECONNRESET):
			s.note(id, "reset", conn)
			return
		case err != nil:
			if errors.Is(err, io.EOF) {
				s.note(id, "closed", conn)
			}
			return
		}
		s.note(id, p.kind, conn)
		switch p.kind {
		case "beat":
			s.mu.Lock()
			order := s.pong(id)
			s.mu.Unlock()
			if !s.answer(conn, order, p.text) {
				return
			}
		case "sleep":
			_, _ = io.WriteString(conn, "OK sleep=60\n")
		}
	}
}

func (s *server) welcome() string {
	if s.mqtt {
		return "\x20\x02\x00\x00"
	}
	return "OK 1 ttl=60\n"
}

// answer does what it is ordered to, and reports whether the connection goes on.
func (s *server) answer(conn net.Conn, order, right string) bool {
	switch order {
	case "":
		_, err := io.WriteString(conn, right)
		return err == nil
	case "silence":
		return true
	case "close": // without a reset: that is what a close with unread input does
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		return false
	case "reset":
		_ = conn.(*net.TCPConn).SetLinger(0)
		return false
	case "block": // until the connection is closed by somebody else
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		<-s.t.Context().Done()
		return false
	default:
		_, err := io.WriteString(conn, strings.ReplaceAll(order, "$", right))
		return err == nil
	}
}

func readLine(in *bufio.Reader) (packet, error) {
	text, err := in.ReadString('\n')
	if err != nil {
		return packet{}, err
	}
	words := strings.Fields(text)
	switch words[0] {
	case "HELLO":
		return packet{kind: "hello", id: words[1], text: text}, nil
	case "PING":
		return packet{kind: "beat", text: "PONG " + words[1] + "\n"}, nil
	case "BYE", "SLEEP":
		return packet{kind: strings.ToLower(words[0])}, nil
	default:
		return packet{}, fmt.Errorf("a line %q", text)
	}
}

// readMQTT understands what devices send.
func readMQTT(in *bufio.Reader) (packet, error) {
	head, err := in.ReadByte()
	if err != nil {
		return packet{}, err
	}
	length, err := binary.ReadUvarint(in)
	if err != nil {
		return packet{}, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return packet{}, err
	}
	field := func(b []byte) (string, []byte) {
		n := binary.BigEndian.Uint16(b)
		return string(b[2 : 2+n]), b[2+n:]
	}
	switch head {
	case 0x10:
		id, rest := field(body[10:])
		return packet{kind: "hello", id: id, text: string(body[6:10]) + string(rest)}, nil
	case 0xC0:
		return packet{kind: "beat", text: "\xD0\x00"}, nil
	case 0xE0:
		return packet{kind: "bye"}, nil
	case 0x31:
		return packet{kind: "birth"}, nil
	case 0x30:
		return packet{kind: "beat"}, nil
	case 0x32:
		_, rest := field(body)
		return packet{kind: "beat", text: "\x40\x02" + string(rest[:2])}, nil
	default:
		return packet{}, fmt.Errorf("a packet % x", head)
	}
}
