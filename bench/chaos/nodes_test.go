package chaos

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// A link hands on what comes, holds it back while it hangs, and resets connections while it is cut.
func TestLink(t *testing.T) {
	database, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close() }()
	go func() {
		for {
			conn, err := database.Accept()
			if err != nil {
				return
			}
			go func() {
				for in := bufio.NewReader(conn); ; {
					word, err := in.ReadString('\n')
					if err != nil {
						_ = conn.Close()
						return
					}
					_, _ = conn.Write([]byte(strings.ToUpper(word)))
				}
			}()
		}
	}()
	l, by, err := newLink(t.Context(), loopback, "postgres://user:secret@"+database.Addr().String()+"/test?x=y")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(by)
	if err != nil || u.Host == database.Addr().String() || u.Path != "/test" || u.User.String() != "user:secret" || u.RawQuery != "x=y" {
		t.Fatalf("by way of %s, %v", by, err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	ask := func(within time.Duration) (string, error) {
		_ = conn.SetReadDeadline(time.Now().Add(within))
		_, _ = conn.Write([]byte("word\n"))
		return in.ReadString('\n')
	}
	if got, err := ask(time.Minute); got != "WORD\n" {
		t.Errorf("answered %q, %v", got, err)
	}
	l.set(hanging)
	if got, err := ask(50 * time.Millisecond); err == nil {
		t.Errorf("answered %q by a link that hangs", got)
	}
	l.set(whole)
	for range 2 { // the one before, and another one
		if got, err := ask(time.Minute); got != "WORD\n" {
			t.Errorf("answered %q, %v", got, err)
		}
	}
	l.set(refused)
	_, err = ask(time.Minute)
	for err == nil { // what had come through before
		_, err = in.ReadString('\n')
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading from a link that is cut: %v", err)
	}
	_ = conn.Close()
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// group is a judge and a standby that do not run, at an instant of 100 s.
type group struct {
	*judges

	a, b *server
}

func newGroup() *group {
	r := newRecord()
	r.history.Origin = time.Now().Add(-100 * time.Second)
	g := &group{judges: &judges{record: r}}
	node := func(name string) *server {
		return &server{program: program{record: r, name: name, process: &process{ended: make(chan struct{})}}, judges: g.judges}
	}
	g.a, g.b = node("a"), node("b")
	g.judges.judges(g.a, g.a.process, seconds(99), seconds(98), true)
	return g
}

// last returns the latest break, whose end is now if it has one.
func (g *group) last() Break { return g.history.Breaks[len(g.history.Breaks)-1] }

func TestJudges(t *testing.T) {
	says := func(g *group, s *server, risen bool) {
		g.judges.judges(s, s.process, g.now(), g.now()-10*time.Millisecond, risen)
	}
	t.Run("first", func(t *testing.T) {
		g := newGroup()
		if b := g.last(); b.Kind != Start || b.Ending != seconds(97.5) || b.Over < seconds(100) || b.By != "a" || b.Forgets || g.current() != g.a {
			t.Errorf("%+v, and the judge is %v", b, g.current())
		}
	})
	t.Run("killed", func(t *testing.T) {
		g := newGroup()
		g.injects(Kill, lease)
		gone := g.lose(g.a.process, Killed, g.now())
		if g.lose(g.b.process, Killed, g.now()) != nil || g.current() != nil {
			t.Error("there is a judge")
		}
		close(g.a.ended)
		gone(Killed)
		says(g, g.b, true)
		b := g.last()
		if b.Kind != Killed || b.Fault != Kill || b.Limit != lease || b.Node != "a" || b.By != "b" || !b.Forgets || b.Over == never || b.Ending < b.Began {
			t.Errorf("%+v", b)
		}
		if g.current() != g.b || len(g.turns) != 2 || g.turns[1].Lost != b.Asked || g.turns[1].From != b.Over {
			t.Errorf("the judge is %v, %+v", g.current(), g.turns)
		}
	})
	t.Run("ended in order, and another one judges before it is gone", func(t *testing.T) {
		g := newGroup()
		gone := g.lose(g.a.process, Ended, g.now())
		says(g, g.a, false)
		says(g, g.b, true)
		gone(Ended)
		if b := g.last(); b.Kind != Ended || b.Forgets || b.Began != b.Ending || b.By != "b" || len(g.history.Breaks) != 2 {
			t.Errorf("%+v", b)
		}
	})
	t.Run("stopped for a moment", func(t *testing.T) {
		g := newGroup()
		woke := g.lose(g.a.process, Stopped, g.now())
		says(g, g.a, false) // an answer from before
		if g.last().Over != never {
			t.Error("it judges while it is stopped")
		}
		woke(Stopped)
		says(g, g.a, false)
		if b := g.last(); b.Kind != Stopped || b.Restart() || b.Over == never || g.current() != g.a || len(g.turns) != 1 {
			t.Errorf("%+v, %+v", b, g.turns)
		}
	})
	t.Run("stopped, and another one judges", func(t *testing.T) {
		g := newGroup()
		woke := g.lose(g.a.process, Stopped, g.now())
		says(g, g.b, true)
		b := g.last()
		woke(Stopped)
		says(g, g.a, false) // it has not noticed
		g.standsBy(g.a.process)
		if now := g.last(); b.Kind != Takeover || !b.Restart() || !b.Forgets || b != now || g.current() != g.b || len(g.history.Breaks) != 2 {
			t.Errorf("%+v, later %+v", b, now)
		}
	})
	t.Run("cut off, and another one judges", func(t *testing.T) {
		g := newGroup()
		g.injects(Cut, lease)
		says(g, g.b, true)
		if b := g.last(); b.Kind != Takeover || b.Fault != Cut || b.Node != "a" || b.By != "b" || b.Began != b.Ending || b.Over == never || !b.Forgets {
			t.Errorf("%+v", b)
		}
	})
	t.Run("cut off, it lets go and judges again", func(t *testing.T) {
		g := newGroup()
		g.injects(Cut, lease)
		g.standsBy(g.a.process)
		if g.current() != nil {
			t.Error("there is a judge")
		}
		says(g, g.a, true)
		if b := g.last(); b.Kind != Takeover || b.Node != "a" || b.By != "a" || b.Forgets || b.Over == never || len(g.turns) != 2 {
			t.Errorf("%+v", b)
		}
	})
}

// What a node says of itself is known by its readiness.
func TestAsk(t *testing.T) {
	status, body := http.StatusOK, "{}"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	s := &server{program: program{api: apiclient.New(web.URL, "", nil)}}
	defer s.api.Close()
	for _, tt := range []struct {
		status int
		body   string
		want   role
	}{
		{http.StatusOK, "{}", ready},
		{http.StatusServiceUnavailable, `{"detail":"standing by: the database is held by node a"}`, standby},
		{http.StatusServiceUnavailable, `{"detail":"starting: devices are being restored"}`, starting},
		{http.StatusServiceUnavailable, `{"detail":"the database does not work: the server is shutting down or starting: it is tried again"}`, neither},
	} {
		if status, body = tt.status, tt.body; s.ask(t.Context()) != tt.want {
			t.Errorf("%d %s is not taken for role %v", tt.status, tt.body, tt.want)
		}
	}
	web.Close()
	if got := s.ask(t.Context()); got != unanswered {
		t.Errorf("a node that is gone has role %v", got)
	}
}

// What two nodes say at the same time is no violation only if it is over soon.
func TestNodes(t *testing.T) {
	answers := func(node string, from, to float64) (list []Answer) {
		for at := from; at < to; at++ {
			list = append(list, Answer{node, seconds(at), seconds(at + 0.1)})
		}
		return list
	}
	turns := []Turn{{"a", ever, seconds(1)}, {"b", seconds(94), seconds(100)}, {"a", seconds(200), seconds(206)}}
	for _, tt := range []struct {
		name    string
		build   func(e *Evidence)
		want    ViolationKind
		overlap float64
	}{
		{"in turns", func(e *Evidence) {
			e.Answers = slices.Concat(answers("a", 1, 100), answers("b", 99, 200), answers("a", 200, 300))
		}, "", 0},
		{"for a while", func(e *Evidence) { e.Answers = answers("a", 1, 105) }, "", 4},
		{"for too long", func(e *Evidence) { e.Answers = answers("a", 1, 120) }, TwoJudges, 19},
		{"while the one that judges was stopped for long", func(e *Evidence) {
			e.Answers = answers("a", 120, 124)
			e.History.Breaks = append(e.History.Breaks, Break{Kind: Stopped, Began: seconds(112), Ending: seconds(119)})
		}, "", 0},
		{"while the one that judges was stopped for a moment", func(e *Evidence) {
			e.Answers = answers("a", 120, 124)
			e.History.Breaks = append(e.History.Breaks, Break{Kind: Stopped, Began: seconds(112), Ending: seconds(114)})
		}, TwoJudges, 23},
		{"after it was stopped", func(e *Evidence) {
			e.Answers, e.Wakes = answers("a", 120, 124), []Turn{{Node: "a", From: seconds(120)}}
		}, "", 3},
		{"terms", func(e *Evidence) {
			e.Terms = []SeenTerm{{"a", "p", true, 1}, {"a", "q", true, 2}, {"b", "p", true, 1}, {"b", "p", false, 2}, {"b", "q", true, 2}}
		}, "", 0},
		{"a term that falls", func(e *Evidence) { e.Terms = []SeenTerm{{"a", "p", false, 2}, {"a", "p", false, 1}} }, TwoJudges, 0},
		{"a lower term", func(e *Evidence) { e.Terms = []SeenTerm{{"a", "p", true, 2}, {"a", "q", true, 1}} }, TwoJudges, 0},
		{"a term of two", func(e *Evidence) { e.Terms = []SeenTerm{{"a", "p", true, 2}, {"b", "q", true, 2}} }, TwoJudges, 0},
		{"soon enough", func(e *Evidence) { e.History.Breaks[1].Limit = seconds(7) }, "", 0},
		{"too late", func(e *Evidence) { e.History.Breaks[1].Limit = seconds(5) }, NoJudge, 0},
		{"too late, since something else was wrong", func(e *Evidence) {
			e.History.Breaks[1].Limit = seconds(5)
			e.History.Troubles = []Trouble{{Freeze, seconds(95), seconds(99)}}
		}, "", 0},
	} {
		w := newWorld()
		w.Turns = turns
		w.History.Breaks = append(w.History.Breaks, Break{Kind: Killed, Asked: seconds(94), Began: seconds(94), Ending: seconds(100), Over: seconds(101)})
		tt.build(&w.Evidence)
		var f Findings
		checkAnswers(&w.Evidence, &f)
		checkTerms(&w.Evidence, &f)
		checkBreaks(&w.Evidence, &f)
		if (len(f.Violations) > 0) != (tt.want != "") || len(f.Violations) > 0 && f.Violations[0].Kind != tt.want {
			t.Errorf("%s: %+v, want %q", tt.name, f.Violations, tt.want)
		}
		if longest := slices.Max(append(f.Overlaps, 0)); longest != seconds(tt.overlap) {
			t.Errorf("%s: an overlap of %v", tt.name, longest)
		}
	}
}

// A device that gave a node up did that on purpose; a greeting that it gave up may have been heard.
func TestGivenUp(t *testing.T) {
	at := time.Now()
	truths := []plan.Truth{
		{Device: 1, Kind: plan.Lost, At: at, Cause: drive.CauseUnanswered},
		{Device: 1, Kind: plan.Lost, At: at, Cause: drive.CauseUnanswered, Back: at.Add(time.Second)},
		{Device: 0, Kind: plan.Lost, At: at, Cause: drive.CauseNoWelcome, Greeted: at.Add(-time.Second)},
		{Device: 0, Kind: plan.Lost, At: at, Cause: drive.CauseReset},
		{Device: 0, Kind: plan.Lost, At: at, Cause: drive.CauseReset, Greeted: at},
		{Device: 1, Kind: plan.Lost, At: at, Cause: drive.CauseReset, Greeted: at, Back: at.Add(time.Second)},
	}
	if steps := stepsOf(truths, 2); len(steps[0]) != 0 || len(steps[1]) != 1 || steps[1][0].Kind != plan.Reset {
		t.Errorf("steps %+v", steps)
	}
	if heard := greetings(truths, 2); !slices.Equal(heard[0], []int64{at.Add(-time.Second).UnixNano(), at.UnixNano()}) || len(heard[1]) != 0 {
		t.Errorf("greetings %v", heard)
	}
}

// What a node heard and did not store is lost with it, but only that.
func TestForgotten(t *testing.T) {
	w := newWorld()
	w.History.Breaks = append(w.History.Breaks, Break{Kind: Killed, Asked: seconds(100), Began: seconds(100), Ending: seconds(106), Over: seconds(107), Forgets: true})
	w.History.Troubles = []Trouble{{Freeze, seconds(200), seconds(210)}}
	w.History.Breaks = append(w.History.Breaks, Break{Kind: Killed, Asked: seconds(212), Began: seconds(212), Ending: seconds(218), Over: seconds(219), Forgets: true})
	for _, tt := range []struct {
		at, t float64
		want  bool
	}{{89, 150, false}, {95, 150, true}, {95, 99, false}, {110, 150, true}, {150, 160, false}, {191, 300, true}, {189, 300, false}} {
		if got := w.History.forgotten(seconds(tt.at), seconds(tt.t)); got != tt.want {
			t.Errorf("forgotten(%v, %v) = %v", tt.at, tt.t, got)
		}
	}
	p := w.Rules.of(30 * time.Second)
	if due, want := p.deadline(w.History.outages(), seconds(90)), seconds(107+30+3+1); due != want {
		t.Errorf("the deadline is %v, want %v", due, want)
	}
	// 10 before, less what was heard since the last checkpoint
	if due, want := p.bound(w.History.outages(), seconds(90)), seconds(107+90-(10-6)+1); due != want {
		t.Errorf("the bound is %v, want %v", due, want)
	}
}

// Only the judge can learn of a goodbye.
func TestTold(t *testing.T) {
	w := newWorld()
	w.History.Breaks = append(w.History.Breaks, Break{
		Kind: Takeover, Asked: seconds(100), Began: seconds(100), Ending: seconds(106), Over: seconds(107), Node: "a", By: "b",
	})
	d := w.device("dev-1")
	w.on(d, 2, 120)
	w.on(d, 150, 200)
	j := judge{history: &w.History, device: d}
	for at, want := range map[float64]bool{50: true, 120: false, 170: true} {
		if got := j.told(seconds(at)); got != want {
			t.Errorf("told(%v) = %v", at, got)
		}
	}
}

// Until the next judge is ready, the one before may judge: it was cut off only for a while.
func TestBetweenJudges(t *testing.T) {
	for at, want := range map[float64]int{106.5: 0, 107.5: 1} {
		w := newWorld()
		w.History.Breaks = append(w.History.Breaks, Break{
			Kind: Takeover, Asked: seconds(90), Began: seconds(106), Ending: seconds(106), Over: seconds(107), Node: "a", By: "b",
		})
		d := w.device("dev-1")
		w.on(d, 2, 100)
		w.step(d, plan.Close, 100)
		w.says("dev-1", "online", "", 2)
		w.says("dev-1", "offline", reasonClosed, at).Data.LastSeen = w.time(98)
		w.told()
		f := Score(&w.Evidence)
		if n := len((&Report{Findings: f}).of(FalseOffline)); n != want {
			t.Errorf("closed at 100, judged at %v: %+v", at, f.Violations)
		}
	}
}

// Events are recorded in the order of the terms.
func TestRecorded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []string
		terms []int64
		want  int
	}{
		{"one after the other", []string{"a", "a", "b", "a"}, []int64{1, 1, 2, 5}, 0},
		{"by the one before", []string{"a", "b", "a", "b"}, []int64{1, 2, 1, 2}, 1},
		{"in the term of another", []string{"a", "b"}, []int64{1, 1}, 1},
	} {
		w := newWorld()
		for i, node := range tt.nodes {
			d := &w.says("dev-1", "online", "", float64(i)).Data
			d.Node, d.Term = node, tt.terms[i]
		}
		var f Findings
		if checkRecorded(&w.Evidence, &f); len(f.Violations) != tt.want {
			t.Errorf("%s: %+v", tt.name, f.Violations)
		}
	}
}
