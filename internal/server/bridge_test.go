package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// statusOf follows a topic of a broker, and returns what was published to it latest.
func statusOf(t *testing.T, url, topic string) func() string {
	t.Helper()
	var mu sync.Mutex // guards latest
	latest := ""
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("watcher").SetAutoReconnect(false))
	done := c.Connect()
	if done.Wait(); done.Error() == nil {
		done = c.Subscribe(topic, 1, func(_ paho.Client, m paho.Message) {
			mu.Lock()
			defer mu.Unlock()
			latest = string(m.Payload())
		})
	}
	if done.Wait(); done.Error() != nil {
		t.Fatal(done.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return latest
	}
}

// A judge that was stopped has no connections to the broker any more once another one has taken over: as
// a member of its group it would take heartbeats away from the new one, and its will would say that this
// one is offline. It makes none when it runs on.
func TestBridgeOfStoppedJudge(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	mosquitto := testmqtt.Mosquitto(t, testmqtt.Options{})
	status := statusOf(t, mosquitto.URL(), mqttreport.StatusTopic("holter"))
	lines := fmt.Sprintf("listen: ['127.0.0.1:0']\ndatabase: %q\nreport: {to: plant}\n"+
		"bridges:\n- {name: plant, url: '%s', share: all, rules: [{topic: 'fleet/{device}/beat'}]}\n", testdb.Postgres(t), mosquitto.URL())
	a := serveApart(t, "a", lines)
	testwait.Until(t, "a judges, and says so", func() bool { return a.judges() && status() == mqttreport.Online })
	b := serveFile(t, "b", lines, t.Output())
	testwait.Until(t, "b stands by", b.standsBy)
	if err := a.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "b judges", b.judges)
	testwait.Until(t, "both connections of a were closed, and b says that it is online", func() bool {
		return strings.Count(mosquitto.Log(), " already connected, closing old connection.") == 2 && status() == mqttreport.Online
	})
	if err := a.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "a stands by", a.standsBy)
	if n := strings.Count(mosquitto.Log(), " as holter-"); n != 4 || status() != mqttreport.Online {
		t.Errorf("%d connections were made, want one for the bridge and one for the report of each server; the status is %q", n, status())
	}
}

// Servers of a database on a server have one client identifier between them. One that may have lost its
// lease makes no connection unless the others say that they stand by.
func TestSession(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	srv := testdb.NewPostgres(t, false)
	s := &server{peers: http.DefaultClient, roster: cluster.NewRoster(cluster.Member{Node: "a"})}
	s.config.Database = config.NewSecret(srv.Database(t))
	if err := s.buildStore(); err != nil {
		t.Fatal(err)
	}
	if err := s.database.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.database.Close() }()
	session := s.session("bridge/plant", "")
	if id, err := session(t.Context()); err != nil || id != fleetClient(s.database.ID(), "bridge/plant") || len(id) > 23 {
		t.Errorf("the client identifier is %q (%v)", id, err)
	}
	if id, err := s.session("bridge/plant", "ours")(t.Context()); err != nil || id != "ours" {
		t.Errorf("the client identifier is %q (%v), want the one that is configured", id, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { s.roster.Run(ctx, s.database, cluster.Judge, s.database.Fence()) })
	testwait.Until(t, "a is on the list, for b to be like it", func() bool { return len(s.roster.Members()) == 1 })
	change(t, s.config.Database.Reveal(), likeA)
	testwait.Until(t, "b is known", func() bool { return len(s.roster.Members()) == 2 })
	cancel()
	following.Wait()
	srv.Pause(t)
	defer srv.Continue(t)
	testwait.Until(t, "another server may have the lease", func() bool { return s.database.Lapsed() > 0 })
	if id, err := session(t.Context()); err == nil || !strings.Contains(err.Error(), "node b at") {
		t.Errorf("%q may connect (%v), although b does not answer", id, err)
	}
	s.roster = cluster.NewRoster(cluster.Member{Node: "a"})
	if _, err := session(t.Context()); err != nil {
		t.Errorf("while no other server is known: %v", err)
	}
}

func TestFleetClient(t *testing.T) {
	ids := make(map[string]bool)
	for _, fleet := range []string{"1", "2"} {
		for _, purpose := range []string{"bridge/a", "bridge/b", "report/a"} {
			ids[fleetClient(fleet, purpose)] = true
		}
	}
	if len(ids) != 6 {
		t.Errorf("the client identifiers are %v, want 6 different ones", ids)
	}
	s := &server{}
	s.config.Database = config.NewSecret("sqlite:holter.db")
	if s.session("bridge/a", "") != nil {
		t.Error("the servers of a file share client identifiers")
	}
}
