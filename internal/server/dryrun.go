package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	payloadShown = 80     // characters of a payload that are shown
	topicsShown  = 10     // topics without a match in the summary
	topicsKept   = 10_000 // topics without a match that are counted
)

// DryRun connects to the brokers of all bridges and prints what their messages would mean, until ctx
// is done. It stores nothing.
func DryRun(ctx context.Context, cfg config.Config, stdout, stderr io.Writer) error {
	log := newLogs(cfg.Log, cfg.Node, stderr).logger()
	bridges, err := bridgeConfigs(&cfg, log)
	if err != nil {
		return BadConfig(err)
	}
	return showMessages(ctx, bridges, stdout, log)
}

// showMessages connects to all brokers and prints their messages and a summary.
func showMessages(ctx context.Context, bridges []mqttbridge.Config, out io.Writer, log *slog.Logger) error {
	show := &messages{out: out, latest: map[string]convention.Message{}, meanings: map[convention.Meaning]int{}, topics: map[string]int{}}
	group, running := errgroup.WithContext(ctx)
	for _, b := range bridges {
		b.ClientID = "" // a running bridge may use the configured one
		name := ""
		if len(bridges) > 1 {
			name = b.Name
		}
		log.Info("dry run: nothing is stored, an interrupt ends it", "url", b.URL, "bridge", b.Name)
		group.Go(func() error {
			if err := mqttbridge.DryRun(running, b, func(l mqttbridge.DryRunLine) { show.line(name, l) }); err != nil {
				return fmt.Errorf("%s: %w", b.Name, err)
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return errors.Join(err, show.summarize())
}

// messages prints messages and counts them.
type messages struct {
	mu       sync.Mutex // guards the fields below; lines come from several bridges
	out      io.Writer
	total    int
	latest   map[string]convention.Message // latest message of each bridge; a message has a line for each convention
	rejected int
	meanings map[convention.Meaning]int
	nothing  int // messages without a match
	topics   map[string]int
	err      error // first error of out
}

// line prints what a message means.
func (m *messages) line(bridge string, l mqttbridge.DryRunLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.latest[bridge]; before.Topic != l.Message.Topic || !before.Time.Equal(l.Message.Time) {
		m.total++
		m.latest[bridge] = convention.Message{Topic: l.Message.Topic, Time: l.Message.Time}
	}
	text := lineText(bridge, &l)
	m.count(&l)
	if _, err := io.WriteString(m.out, text); err != nil && m.err == nil {
		m.err = err
	}
}

func (m *messages) count(l *mqttbridge.DryRunLine) {
	if l.Err != nil {
		m.rejected++
	}
	for i := range l.Signs {
		m.meanings[l.Signs[i].Meaning]++
	}
	if len(l.Signs) > 0 || l.Err != nil {
		return
	}
	m.nothing++
	topic := l.Message.Topic
	if _, known := m.topics[topic]; known || len(m.topics) < topicsKept {
		m.topics[topic]++
	}
}

// lineText returns the line for a message.
func lineText(bridge string, l *mqttbridge.DryRunLine) string {
	var out strings.Builder
	out.WriteString(l.Message.Time.Format("15:04:05.000") + "  ")
	if bridge != "" {
		out.WriteString(terminal.Printable(bridge) + "  ")
	}
	out.WriteString(terminal.Printable(l.Message.Topic) + "  " + payloadText(l.Message.Payload))
	if l.Message.Retained {
		out.WriteString(" (retained)")
	}
	lead := "  -> "
	if l.Err != nil {
		out.WriteString(lead + "rejected" + whyText(l.Convention, l.Err.Error()))
		lead = ", "
	}
	for i := range l.Signs {
		s := &l.Signs[i]
		out.WriteString(lead + signText(s) + whyText(l.Convention, s.Why))
		lead = ", "
	}
	if lead == "  -> " {
		out.WriteString("  -> nothing matches")
	}
	out.WriteByte('\n')
	return out.String()
}

// whyText returns the convention and the reason in parentheses.
func whyText(name, why string) string {
	switch {
	case name == "" && why == "":
		return ""
	case name == "" || why == "":
		return " (" + terminal.Printable(name+why) + ")"
	}
	return " (" + terminal.Printable(name+": "+why) + ")"
}

// signText describes a sign of a device.
func signText(s *convention.Sign) string {
	text := s.Meaning.String()
	if s.Device != "" {
		text += " " + terminal.Printable(s.Device)
	}
	if s.Behind != "" {
		text += " behind " + terminal.Printable(s.Behind)
	}
	parts := []string{text}
	add := func(has bool, what, value string) {
		if has {
			parts = append(parts, what+value)
		}
	}
	add(s.Timeout == convention.Never, "timeout ", "never")
	add(s.Timeout > 0, "timeout ", terminal.Short(s.Timeout))
	add(s.Interval > 0, "interval ", terminal.Short(s.Interval))
	add(s.Length > 0, "for ", terminal.Short(s.Length))
	add(s.Text != "", "", strconv.Quote(s.Text))
	for i := range s.Publish {
		add(true, "would publish to ", terminal.Printable(s.Publish[i].Topic))
	}
	for i := range s.Subscribe {
		add(true, "subscribes to ", terminal.Printable(s.Subscribe[i].Filter))
	}
	return strings.Join(parts, ", ")
}

// payloadText returns a payload in quotes, shortened.
func payloadText(payload []byte) string {
	shown := 0
	for range payloadShown {
		_, size := utf8.DecodeRune(payload[shown:])
		shown += size
	}
	text := strconv.Quote(string(payload[:shown]))
	if shown < len(payload) {
		text += "… (" + terminal.Grouped(len(payload)) + " bytes)"
	}
	return text
}

// summarize prints how many messages had which meaning.
func (m *messages) summarize() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s", terminal.Plural(m.total, "message", "messages"))
	lead := ": "
	add := func(n int, what string) {
		if n > 0 {
			out.WriteString(lead + terminal.Grouped(n) + " " + what)
			lead = ", "
		}
	}
	for _, meaning := range slices.Sorted(maps.Keys(m.meanings)) {
		add(m.meanings[meaning], meaning.String())
	}
	add(m.rejected, "rejected")
	add(m.nothing, "that nothing matches")
	out.WriteByte('\n')
	if len(m.topics) > 0 {
		out.WriteString("\nTopics that nothing matches:\n\n")
	}
	topics := slices.SortedFunc(maps.Keys(m.topics), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.topics[b], m.topics[a]), cmp.Compare(a, b))
	})
	for _, topic := range topics[:min(len(topics), topicsShown)] {
		fmt.Fprintf(&out, "  %8s  %s\n", terminal.Grouped(m.topics[topic]), terminal.Printable(topic))
	}
	if more := len(topics) - topicsShown; more > 0 {
		fmt.Fprintf(&out, "  and %s more\n", terminal.Plural(more, "topic", "topics"))
	}
	_, err := io.WriteString(m.out, out.String())
	return errors.Join(m.err, err)
}
