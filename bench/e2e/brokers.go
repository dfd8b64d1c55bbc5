package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/serve"
)

// stateTopic is where a device keeps its state at mosquitto, by its last will.
const stateTopic = "fleet/{device}/state"

// brokers plays all scenarios against the broker inside holter serve and against mosquitto, in turn. Holter is judged by its verdicts,
// mosquitto by the states that the devices keep there, retained and with a last will.
func (b *bench) brokers(ctx context.Context) error {
	results := make(map[string][]*result)
	var rows []string
	for _, s := range b.wanted() {
		for _, broker := range []string{"holter", "mosquitto"} {
			r, err := b.playBroker(ctx, s, broker)
			if err != nil {
				return fmt.Errorf("scenario %s with %s: %w", s.name, broker, err)
			}
			row := s.name + " with " + broker
			rows = append(rows, row)
			results[row] = []*result{r}
		}
	}
	if len(rows) == 0 {
		return errors.New("-only: no scenario matches")
	}
	b.Note(serve.MosquittoVersion(ctx))
	columns := append(judged(),
		figures.Col("server's memory, MB", 0, func(r *result) float64 { return float64(r.usage.servers) / 1e6 }),
		took("its CPU", func(r *result) string { return figures.Duration(r.usage.cpu) }))
	return b.Publish(ctx, "Brokers end to end", "e2e-brokers", fmt.Sprintf(
		"%s MQTT clients with a PINGREQ every %v and a keep alive of two thirds of %v, of the broker inside `holter serve`, and of mosquitto, "+
			"one after the other. Of mosquitto's clients each keeps a retained state, `online`, and has a last will, `offline`: that is the presence "+
			"which a broker offers, and it is read back by a subscriber. Holter's verdicts are read from its event stream. The latency is that from the "+
			"instant at which the verdict is due: one and a half keep alives after the last packet (MQTT 3.1.1, section 3.1.2.10), or the end of the connection; "+
			"holter waits for `close_grace` there, so that a client which comes back at once is not called offline.\n\n%s",
		figures.Grouped(b.connections), b.interval, results[rows[0]][0].final.Fleet.Timeout, figures.Table("scenario", rows, results, columns...)))
}

func (b *bench) playBroker(ctx context.Context, s scenario, broker string) (r *result, err error) {
	out := filepath.Join(b.Dir, s.name+"-"+broker)
	if err := os.Mkdir(out, 0o755); err != nil { // mosquitto may run as another user
		return nil, err
	}
	b.Progress("%s: %d clients of %s", s.name, b.connections, broker)
	m := newMeter()
	path := filepath.Join(out, "server")
	var server *serve.Server
	if broker == "holter" {
		server, err = b.startServer(ctx, path, serve.AnyPort, runtime.NumCPU())
	} else {
		server, err = serve.Mosquitto(ctx, out, path+".log")
	}
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	verify := server.API
	if broker == "mosquitto" {
		verify = "mqtt://" + server.MQTT
	}
	args := append(b.arguments(s, out), "--protocol", "mqtt", "--will-topic", stateTopic, "--target", server.MQTT, "--verify", verify)
	for _, mistake := range []string{"false-offline", "missed-offline", "wrong-reason", "gaps"} { // it is shown, and fails nothing
		args = append(args, "--max-"+mistake+"=-1")
	}
	r = &result{scenario: s, servers: 1}
	return r, b.generate(ctx, args, out, servers{server}, m, r)
}
