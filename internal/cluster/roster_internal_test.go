package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Main(m)) }

// servers describes the servers that a roster knows.
func servers(r *Roster) string {
	var all []string
	for _, m := range r.Members() {
		state := string(m.Role)
		if !m.Alive {
			state = "lost"
		}
		all = append(all, m.Node+" "+state+" at "+m.API)
	}
	return strings.Join(all, "; ")
}

func TestRoster(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			db := testsqldb.Open(t, sqldb.Config{URL: kind.URL(t)})
			a, b := NewRoster(Member{Node: "a", API: "http://a:1"}), NewRoster(Member{Node: "b", API: "http://b:1"})
			step := func(r *Roster, role Role, term int64) {
				t.Helper()
				if err := r.renew(t.Context(), db, role, term); err != nil {
					t.Fatal(err)
				}
				for _, r := range []*Roster{a, b} {
					if err := r.look(t.Context(), db); err != nil {
						t.Fatal(err)
					}
				}
			}
			step(b, Standby, 0)
			if judge, ok := b.Judge(); ok {
				t.Errorf("the judge is %v before there is one", judge)
			}
			step(a, Judge, 7)
			if judge, ok := b.Judge(); !ok || judge.Node != "a" || judge.Term != 7 || b.Self().Term != 7 {
				t.Errorf("the judge is %v, and the latest term %d", judge, b.Self().Term)
			}
			if got, want := servers(a), "a judge at http://a:1; b standby at http://b:1"; got != want {
				t.Errorf("servers = %s, want %s", got, want)
			}
			step(b, Judge, 8) // a has not noticed
			if got, want := servers(b), "a lost at http://a:1; b judge at http://b:1"; got != want {
				t.Errorf("servers = %s, want %s", got, want)
			}
			step(b, Standby, 0)
			err := db.WriteShared(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE nodes SET renewed = renewed - ? WHERE node = 'a'", aliveFor)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			step(b, Judge, 8)
			if got, want := servers(b), "a lost at http://a:1; b judge at http://b:1"; got != want {
				t.Errorf("servers = %s, want %s", got, want)
			}
			if judge, _ := a.Judge(); judge.Node != "b" || judge.Term != 8 {
				t.Errorf("the judge is %v", judge)
			}
			if got := b.others(); len(got) != 0 {
				t.Errorf("others that are alive: %v", got)
			}
			if err := a.Leave(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			step(b, Judge, 8)
			if got, want := servers(b), "b judge at http://b:1"; got != want {
				t.Errorf("servers = %s, want %s", got, want)
			}
		})
	}
}

// A judge that cannot renew its lease goes on only if everybody else says that it stands by.
func TestAsk(t *testing.T) {
	serve := func(term string) Member {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if term != "" {
				w.Header().Set(TermHeader, term)
			}
		}))
		t.Cleanup(s.Close)
		return Member{Process: "other " + s.URL, Node: "other", API: s.URL, Alive: true}
	}
	behind, same, ahead, judge, odd := serve("6"), serve("7"), serve("8"), serve(""), serve("seven")
	gone := serve("7")
	gone.API = "http://127.0.0.1:1"
	lost := gone
	lost.Alive = false
	for _, tt := range []struct {
		name   string
		others []Member
		want   string // part of the error; "" for none
	}{
		{"alone", nil, ""},
		{"with those that were lost", []Member{lost}, ""},
		{"with standbys", []Member{behind, same}, ""},
		{"of a later term", []Member{same, ahead}, "knows of term 8, and that of this server is 7"},
		{"of a judge", []Member{judge, same}, "does not stand by (status 200)"},
		{"of another program", []Member{odd}, "does not stand by"},
		{"of nobody", []Member{same, gone}, "connection refused"},
	} {
		r := NewRoster(Member{Node: "me"})
		r.members = append(tt.others, Member{Process: r.self.Process, API: gone.API, Alive: true})
		err := r.Ask(t.Context(), http.DefaultClient, 7)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A server that does not answer is no standby.
func TestAskHanging(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer s.Close()
	defer close(hang)
	r := NewRoster(Member{Node: "me"})
	r.members = []Member{{Process: "other", Node: "other", API: s.URL, Alive: true}}
	if err := r.Ask(t.Context(), &http.Client{Timeout: 10 * time.Millisecond}, 7); err == nil {
		t.Error("no error")
	}
}
