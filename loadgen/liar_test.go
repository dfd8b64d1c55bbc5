package loadgen_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// saying is an event as the gateway of these tests says it. Lies change it before it is numbered and put into the log.
type saying struct {
	kind, device, source, reason string
	seq, epoch, offset           uint64 // 0: left out
	at, deadline, lastSeen       time.Time
	deaf                         time.Duration
	timeout, heard               time.Duration // 0: left out
	id                           string
	torn                         bool          // it is no JSON
	delay                        time.Duration // until it is in the log
}

// lie is how a gateway deviates from honesty. Each func is called with the gateway's lock held.
type lie struct {
	skew     time.Duration // of its clock, which is no lie
	used     uint64        // so many events are in its log from before
	resident bool          // and it held all devices for online a moment ago
	// timeout is the silence after which it judges, if that is not the plan's; blind says that it judges nobody.
	timeout time.Duration
	blind   func(g *liar) bool
	// deafTo says that heartbeats of a device are answered and not counted.
	deafTo func(device string) bool
	// says changes what it says: it returns what goes into the log instead, numbered already.
	says func(g *liar, s saying) []saying
	// each is called some 50 times a second.
	each func(g *liar, now time.Time)
	// stats and knows change what the API says.
	stats func(now time.Time) time.Time
	knows func(g *liar, device string) (state string, lastSeen time.Time)
	// lag is how far it says that its listening clock is behind.
	lag func(g *liar) time.Duration
}

// tenant is a device as the gateway knows it.
type tenant struct {
	conn         net.Conn
	state        string
	last, closed time.Time // heard last; when the connection ended, if it did
	seq, epoch   uint64
	until        time.Time // what was said of it is in the log by then
}

// liar is a small gateway of the protocol line with an event stream. It is honest but for its lie. Its judge looks 50 times a second; the
// clock of what it says is the one of this machine, and its skew.
type liar struct {
	lie

	p       *plan.Plan
	began   time.Time
	devices *memory
	people  *memory
	api     *httptest.Server
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	tenants map[string]*tenant
	pending []saying
	due     []time.Time // of those that are pending
	log     []saying
	ended   bool
	streams int // that were begun
	cut     int // streams up to this one are ended
	marks   map[string]int
}

// begin runs a gateway until the test ends.
func begin(t *testing.T, p *plan.Plan, l lie) *liar {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g := &liar{
		lie: l, p: p, began: time.Now(), devices: newMemory(), cancel: cancel, tenants: map[string]*tenant{}, marks: map[string]int{},
	}
	g.changed = sync.NewCond(&g.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/events/stream", g.stream)
	mux.HandleFunc("/v1/stats", g.tellTime)
	mux.HandleFunc("/v1/devices/{id}", g.device)
	mux.HandleFunc("/v1/sources", g.sources)
	g.people = newMemory()
	g.api = httptest.NewUnstartedServer(mux)
	_ = g.api.Listener.Close() // of the real network
	g.api.Listener = g.people
	g.api.Start()
	for i := range l.used {
		g.log = append(g.log, saying{kind: "device.online", device: fmt.Sprintf("old-%d", i), seq: 1, epoch: 1, offset: i + 1, at: g.began})
	}
	if l.resident {
		for n := range p.Devices {
			g.tenants[p.DeviceID(n)] = &tenant{state: "online", last: g.began, seq: 7, epoch: 3, closed: g.began.Add(time.Hour)}
		}
	}
	g.wg.Go(g.accept)
	g.wg.Go(func() { g.judge(ctx) })
	t.Cleanup(g.end)
	return g
}

func (g *liar) end() {
	g.cancel()
	_ = g.devices.Close()
	g.mu.Lock()
	g.ended = true
	for _, d := range g.tenants {
		if d.conn != nil {
			_ = d.conn.Close()
		}
	}
	g.changed.Broadcast()
	g.mu.Unlock()
	g.api.CloseClientConnections()
	g.api.Close()
	g.wg.Wait()
}

// since is how long it has run.
func (g *liar) since() time.Duration { return time.Since(g.began) }

// once reports whether it is called with a name for the first time.
func (g *liar) once(name string) bool {
	g.marks[name]++
	return g.marks[name] == 1
}

func (g *liar) accept() {
	for {
		c, err := g.devices.Accept()
		if err != nil {
			return
		}
		g.wg.Go(func() { g.talk(c) })
	}
}

// talk speaks with a device.
func (g *liar) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	lines := bufio.NewScanner(c)
	var id string
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer := ""
		switch {
		case len(words) > 1 && words[0] == "HELLO":
			id = words[1]
			answer = g.hello(c, id)
		case len(words) > 1 && words[0] == "PING":
			answer = "PONG " + words[1] + "\n"
			g.beat(c, id)
		case len(words) > 0 && words[0] == "BYE":
			g.bye(c, id)
			_, _ = io.WriteString(c, "BYE\n")
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			break
		}
	}
	g.hangUp(c, id)
}

func (g *liar) hello(c net.Conn, id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.tenants[id]
	if d == nil {
		d = &tenant{state: "new"}
		g.tenants[id] = d
	}
	replaced := d.conn != nil
	if g.ended {
		return ""
	}
	if replaced {
		_ = d.conn.Close()
	}
	d.conn, d.closed = c, time.Time{}
	d.epoch++
	if replaced && d.state == "online" {
		g.say(id, "device.session_replaced", "", time.Time{})
	}
	g.alive(id, d)
	return fmt.Sprintf("OK %d ttl=%d\n", d.epoch, int(g.p.Timeout.Seconds()))
}

// alive notes a sign of life.
func (g *liar) alive(id string, d *tenant) {
	if g.deafTo != nil && d.state == "online" && g.deafTo(id) {
		return
	}
	d.last = time.Now()
	if d.state != "online" {
		d.state = "online"
		g.say(id, "device.online", "", time.Time{})
	}
}

func (g *liar) beat(c net.Conn, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.tenants[id]; d != nil && d.conn == c {
		g.alive(id, d)
	}
}

func (g *liar) bye(c net.Conn, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.tenants[id]; d != nil && d.conn == c {
		d.conn, d.state = nil, "offline"
		g.say(id, "device.offline", "bye", time.Time{})
	}
}

func (g *liar) hangUp(c net.Conn, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.tenants[id]; d != nil && d.conn == c {
		d.conn, d.closed = nil, time.Now()
	}
}

// judge judges the devices until ctx ends, and puts into the log what is due.
func (g *liar) judge(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.look(time.Now())
		}
	}
}

func (g *liar) look(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	timeout := g.p.Timeout
	if g.timeout > 0 {
		timeout = g.timeout
	}
	for id, d := range g.tenants {
		if d.state != "online" || g.blind != nil && g.blind(g) {
			continue
		}
		due, reason := d.last.Add(timeout), "silence"
		if !d.closed.IsZero() && d.closed.Add(g.p.Grace).Before(due) {
			due, reason = d.closed.Add(g.p.Grace), "closed"
		}
		if now.Before(due) {
			continue
		}
		d.state = "offline"
		g.say(id, "device.offline", reason, due)
		if d.conn != nil {
			_ = d.conn.Close()
			d.conn = nil
		}
	}
	if g.each != nil {
		g.each(g, now)
	}
	for i := 0; i < len(g.pending); i++ {
		if !g.due[i].After(now) {
			g.write(g.pending[i])
			g.pending, g.due = slices.Delete(g.pending, i, i+1), slices.Delete(g.due, i, i+1)
			i--
		}
	}
}

// say says something of a device.
func (g *liar) say(id, kind, reason string, deadline time.Time) {
	d := g.tenants[id]
	d.seq++
	s := saying{
		kind: kind, device: id, source: "line", reason: reason, seq: d.seq, epoch: d.epoch, at: time.Now(), deadline: deadline, lastSeen: d.last,
		id: fmt.Sprintf("%s:%d", id, d.seq),
	}
	all := []saying{s}
	if g.says != nil {
		all = g.says(g, s)
	}
	for _, s := range all {
		g.later(s)
	}
}

// later puts something into the log when its time has come, and not before what was said of the device before.
func (g *liar) later(s saying) {
	at := time.Now().Add(s.delay)
	if d := g.tenants[s.device]; d != nil {
		if at.Before(d.until) {
			at = d.until
		}
		d.until = at
	}
	if !at.After(time.Now()) {
		g.write(s)
		return
	}
	g.pending, g.due = append(g.pending, s), append(g.due, at)
}

// write puts something into the log.
func (g *liar) write(s saying) {
	if s.offset == 0 {
		s.offset = 1
		if n := len(g.log); n > 0 {
			s.offset = g.log[n-1].offset + 1
		}
	}
	g.log = append(g.log, s)
	g.changed.Broadcast()
}

// source says something of the source.
func (g *liar) source(kind string, at time.Time, deaf time.Duration) {
	g.later(saying{kind: kind, source: "line", at: at, deaf: deaf, seq: 1})
}

// restart ends the streams; the API goes on.
func (g *liar) restart() {
	g.cut = g.streams
	g.changed.Broadcast()
}

// stream is the event stream of the API.
func (g *liar) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	defer context.AfterFunc(r.Context(), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.changed.Broadcast()
	})()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streams++
	mine, next := g.streams, len(g.log)
	var place uint64
	if next > 0 {
		place = g.log[next-1].offset
	}
	if after, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		place = after
		for next > 0 && g.log[next-1].offset > after {
			next--
		}
	}
	text := fmt.Sprintf("retry: 100\nid: %d\n\n", place)
	for {
		g.mu.Unlock()
		_, err := io.WriteString(w, text)
		_ = control.Flush()
		g.mu.Lock()
		for err == nil && next == len(g.log) && !g.ended && mine > g.cut && r.Context().Err() == nil {
			g.changed.Wait()
		}
		if err != nil || g.ended || mine <= g.cut || r.Context().Err() != nil {
			return
		}
		text = g.log[next].message(g.skew)
		next++
	}
}

// message is an event as the stream has it.
func (s saying) message(skew time.Duration) string {
	if s.kind == "missed" {
		return fmt.Sprintf("id: %d\nevent: missed\ndata: {\"oldest\":%d}\n\n", s.offset-1, s.offset)
	}
	data := map[string]any{}
	put := func(name string, value any, is bool) {
		if is {
			data[name] = value
		}
	}
	stamp := func(t time.Time) string { return t.Add(skew).UTC().Format("2006-01-02T15:04:05.999999999Z07:00") }
	put("offset", s.offset, true)
	put("seq", s.seq, s.seq != 0)
	put("epoch", s.epoch, s.epoch != 0)
	put("reason", s.reason, s.reason != "")
	put("source", s.source, s.source != "")
	put("deadline", stamp(s.deadline), !s.deadline.IsZero())
	put("last_seen", stamp(s.lastSeen), !s.lastSeen.IsZero())
	put("timeout_ms", s.timeout.Milliseconds(), s.timeout != 0)
	put("heard_silence_ms", s.heard.Milliseconds(), s.heard != 0)
	put("deaf_ms", float64(s.deaf)/float64(time.Millisecond), s.deaf != 0)
	event := map[string]any{"specversion": "1.0", "type": "io.holter." + s.kind, "id": s.id, "subject": s.device, "data": data}
	if s.device == "" {
		event["subject"] = s.source
	}
	if !s.at.IsZero() {
		event["time"] = stamp(s.at)
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	if s.torn {
		text = text[:len(text)/2]
	}
	return fmt.Sprintf("id: %d\nevent: io.holter.%s\ndata: %s\n\n", s.offset, s.kind, text)
}

// tellTime is what loadgen measures the clock by.
func (g *liar) tellTime(w http.ResponseWriter, _ *http.Request) {
	now := time.Now().Add(g.skew)
	if g.stats != nil {
		now = g.stats(now)
	}
	_, _ = fmt.Fprintf(w, `{"as_of":%q}`, now.UTC().Format(time.RFC3339Nano))
}

// sources lists those that are deaf, by what is in the log.
func (g *liar) sources(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	deaf := map[string]time.Time{}
	for _, s := range g.log {
		switch {
		case s.kind == "source.deaf" && s.deaf == 0:
			deaf[s.source] = s.at
		case s.kind == "source.heard":
			delete(deaf, s.source)
		}
	}
	var list []map[string]any
	for name, since := range deaf {
		list = append(list, map[string]any{"name": name, "deaf_since": since.Add(g.skew)})
	}
	if g.lag != nil {
		list = append(list, map[string]any{"name": "line", "behind_ms": g.lag(g).Milliseconds()})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"sources": list, "as_of": time.Now().Add(g.skew)})
}

func (g *liar) device(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := r.PathValue("id")
	state, seen, since := "", time.Time{}, time.Time{}
	if d := g.tenants[id]; d != nil {
		state, seen, since = d.state, d.last.Add(g.skew), d.until.Add(g.skew)
	}
	if g.knows != nil {
		state, seen = g.knows(g, id)
	}
	if state == "" {
		http.Error(w, "no such device", http.StatusNotFound)
		return
	}
	_, _ = fmt.Fprintf(w, `{"state":%q,"last_seen":%q,"since":%q}`, state, seen.UTC().Format(time.RFC3339Nano), since.UTC().Format(time.RFC3339Nano))
}

// follower reads the gateway's verdicts as holter loadgen does.
func (g *liar) follower(t *testing.T) (*score.HTTP, string) {
	t.Helper()
	h, err := score.NewHTTP(score.HTTPConfig{URL: g.api.URL, Retry: 50 * time.Millisecond, Dial: g.people.dial})
	if err != nil {
		t.Fatal(err)
	}
	return h, g.api.URL
}
