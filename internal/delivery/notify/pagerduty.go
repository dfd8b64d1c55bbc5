package notify

import (
	"context"
	"errors"
	"strings"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
)

// pagerduty sends to the Events API v2: https://developer.pagerduty.com/docs/send-alert-event. The target
// is another one in the EU: https://events.eu.pagerduty.com/v2/enqueue.
type pagerduty struct {
	incidents

	RoutingKey string `json:"routing_key,omitempty"`
}

func (p *pagerduty) check(string) error {
	if p.Batch > 1 {
		return errors.New("settings: pagerduty gets one message at a time, so batch must be 1")
	}
	if p.RoutingKey == "" {
		return errors.New("settings: want routing_key, the integration key of an integration of type Events API v2")
	}
	return nil
}

// send implements sender.
func (p *pagerduty) send(ctx context.Context, a *attempt, m *message) sink.Result {
	routing, err := a.secret(p.RoutingKey)
	if err != nil {
		return sink.Result{Err: err}
	}
	event := object{"routing_key": routing, "dedup_key": incidentKey(m, 255)}
	do := func(action string) sink.Result {
		event["event_action"] = action
		return a.post(ctx, a.target, nil, event)
	}
	switch incidentOf(m.Notification) {
	case opened, tried:
		p.describe(event, m)
		r := do("trigger")
		if r.Err != nil || m.Type != wording.Test {
			return r
		}
		return do("resolve")
	case closed:
		return p.hasClosed(m, do("resolve"))
	case unchanged:
	}
	return sink.Result{}
}

// describe adds what a trigger says.
func (p *pagerduty) describe(event object, m *message) {
	severity := "critical"
	switch m.Type {
	case wording.Test:
		severity = "info"
	case "device.failed":
		severity = "warning"
	}
	event["client"] = "Holter"
	event["payload"] = without(object{
		"summary": fit{most: 1024}.text(m.text.Title), "source": fit{most: 255}.text(m.source()), "severity": severity,
		"group": fit{most: 255}.text(m.Group), "class": m.Type, "custom_details": m.details(),
	})
	if m.URL != "" {
		event["client_url"] = m.URL
		event["links"] = []object{{"href": m.URL, "text": "Open the console"}}
	}
}

// source returns what the message is about.
func (m *message) source() string {
	for _, s := range []string{m.Device, m.Group, m.Source, m.Node} {
		if s != "" {
			return s
		}
	}
	return "holter"
}

// details returns what else is known, for the table of an incident.
func (m *message) details() object {
	d := without(object{
		"text": strings.Join(m.text.Lines, "\n"), "type": m.Type, "device": m.Device, "group": m.Group, "reason": m.Reason, "last_seen": m.LastSeen,
		"policy": m.Policy, "node": m.Node,
	})
	if text := d["text"]; text != nil {
		d["text"] = fit{most: 5000}.text(text.(string))
	}
	if m.HeardSilence > 0 {
		d["heard_silence"] = m.HeardSilence.String()
	}
	if m.Timeout > 0 {
		d["timeout"] = m.Timeout.String()
	}
	return d
}
