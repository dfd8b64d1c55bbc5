package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// Brokers that are measured beside each other.
const (
	holterBroker    = "holter"
	mosquittoBroker = "mosquitto"
)

// stateTopic is where a device of the brokers' fleet keeps its state, by its last will.
const stateTopic = "fleet/{device}/state"

// comparison is what came of a scenario with one broker.
type comparison struct {
	result

	broker string
}

// compare plays all scenarios against the broker inside holter serve and against mosquitto, in turn. What holter says is its verdicts; what
// mosquitto says is the states that the devices keep there, retained and with a last will.
func (b *bench) compare(ctx context.Context) ([]comparison, error) {
	mosquitto, err := findMosquitto()
	if err != nil {
		return nil, err
	}
	var all []comparison
	for _, s := range b.scenarios {
		for _, broker := range []string{holterBroker, mosquittoBroker} {
			c := comparison{result: result{scenario: s, servers: 1}, broker: broker}
			if err := b.playBroker(ctx, &c, mosquitto); err != nil {
				return all, fmt.Errorf("scenario %s with %s: %w", s.name, broker, err)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

func findMosquitto() (string, error) {
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mosquitto is not installed; test/setup.sh does that")
}

func (b *bench) playBroker(ctx context.Context, c *comparison, mosquitto string) (err error) {
	name := c.name + "-" + c.broker
	dir, out := filepath.Join(b.dir, name), filepath.Join(b.out, name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(out, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	_, _ = fmt.Fprintf(b.log, "%s: %d clients of %s\n", c.name, b.connections, c.broker)
	var s *server
	if c.broker == holterBroker {
		s, err = startServer(ctx, b.program, filepath.Join(dir, "data"), filepath.Join(out, "server.log"), anyPort, 1)
	} else {
		s, err = startMosquitto(ctx, mosquitto, dir, filepath.Join(out, "server.log"))
	}
	if err != nil {
		return err
	}
	defer s.stop()
	args := append(b.common(c.scenario, out), "--protocol", "mqtt", "--will-topic", stateTopic, "--target", s.mqtt)
	if c.broker == holterBroker {
		args = append(args, "--verify", s.api)
	} else {
		args = append(args, "--verify", "mqtt://"+s.mqtt)
	}
	for _, mistake := range []string{"false-offline", "missed-offline", "wrong-reason", "gaps"} { // it is shown, not judged
		args = append(args, "--max-"+mistake+"=-1")
	}
	state, err := b.generate(ctx, args, servers{s}, available(), &c.result)
	if err != nil {
		return err
	}
	if err := s.died(); err != nil {
		return err
	}
	c.generator = state.UserTime() + state.SystemTime()
	return readFinal(filepath.Join(out, "report.json"), &c.final)
}

// startMosquitto starts a mosquitto with room for all.
func startMosquitto(ctx context.Context, program, dir, log string) (*server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", anyPort)
	if err != nil {
		return nil, err
	}
	address := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return nil, err
	}
	// The bound on what waits for a subscriber is lifted: what is said of devices is not to be dropped.
	settings := fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous true\npersistence false\nmax_queued_messages 0\nlog_dest stderr\nlog_type error\n",
		address.Port)
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{cmd: command(ctx, program, "-c", file), cancel: cancel, log: log, mqtt: address.String(), ended: make(chan struct{})}
	out, err := os.Create(log)
	if err == nil {
		s.cmd.Stderr = out
		err = s.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(s.ended)
		err := errors.Join(s.cmd.Wait(), out.Close())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = err
	}()
	for began := time.Now(); ; {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.mqtt)
		if err == nil {
			return s, c.Close()
		}
		select {
		case <-s.ended:
			return nil, fmt.Errorf("mosquitto ended: %w\n%s", s.err, tail(log))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(began) > patience {
			s.stop()
			return nil, fmt.Errorf("mosquitto did not start within %v: %w", patience, err)
		}
	}
}

// compareReport returns the table of brokers, as Markdown.
func (b *bench) compareReport(header string, all []comparison) string {
	var w strings.Builder
	w.WriteString(header)
	fmt.Fprintf(&w, "%s MQTT clients with a PINGREQ every %v and a keep alive of two thirds of %v, of the broker inside `holter serve`, and of mosquitto, "+
		"one after the other. Of mosquitto's clients each keeps a retained state, `online`, and has a last will, `offline`: that is the presence "+
		"which a broker offers, and it is read back by a subscriber. What holter says are its verdicts, read from its event stream. The latency is that from the "+
		"instant at which the verdict is due: one and a half keep alives after the last packet (MQTT 3.1.1, section 3.1.2.10), or the end of the connection; "+
		"holter waits for `close_grace` there, so that a client which comes back at once is not called offline.\n\n",
		figures.Grouped(b.connections), b.interval, all[0].final.Fleet.Timeout)
	w.WriteString("| scenario | broker | right verdicts | false offline | missed offline | other mistakes | latency p50 / p99 / max | server's memory | its CPU |\n" +
		"|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for i := range all {
		c := &all[i]
		var m mistakes
		var right uint64
		latencies := "–"
		if v := c.final.Verdicts; v != nil {
			m, right, latencies = countMistakes(v.Mistakes), v.Right, latency(v.Detection.Latency)
		}
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name, c.broker, figures.Grouped(right), figures.Grouped(m.falseOffline),
			figures.Grouped(m.missed), figures.Grouped(m.others), latencies, mega(c.usage.servers), duration(c.usage.cpu))
	}
	return w.String()
}

// common is the part of the generator's command line that does not depend on whom it is about.
func (b *bench) common(s scenario, out string) []string {
	args := []string{
		"loadgen", "--scenario", s.name, "--connections", strconv.Itoa(b.connections), "--ramp", fmt.Sprintf("%g/s", b.ramp),
		"--interval", b.interval.String(), "--report", out,
	}
	if b.length > 0 {
		args = append(args, "--duration", b.length.String())
	}
	return args
}
