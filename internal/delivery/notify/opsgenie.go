package notify

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
)

// opsgenie sends to the Alert API v2: https://docs.opsgenie.com/docs/alert-api. The target is another one in
// the EU, https://api.eu.opsgenie.com/v2/alerts, and for Jira Service Management,
// https://api.atlassian.com/jsm/ops/integration/v2/alerts.
type opsgenie struct {
	incidents

	APIKey string `json:"api_key,omitempty"`
}

func (o *opsgenie) check(string) error {
	if o.Batch > 1 {
		return errors.New("settings: opsgenie gets one message at a time, so batch must be 1")
	}
	if o.APIKey == "" {
		return errors.New("settings: want api_key, that of an API integration")
	}
	return nil
}

// send implements sender.
func (o *opsgenie) send(ctx context.Context, a *attempt, m *message) sink.Result {
	secret, err := a.secret(o.APIKey)
	if err != nil {
		return sink.Result{Err: err}
	}
	header := http.Header{"Authorization": {"GenieKey " + secret}}
	alias, alerts := incidentKey(m, 512), strings.TrimSuffix(a.target, "/")
	end := func() sink.Result {
		note := fit{most: 25_000}.lines(append([]string{m.text.Title}, m.text.Lines...))
		return a.post(ctx, alerts+"/"+url.PathEscape(alias)+"/close?identifierType=alias", header, object{"source": "Holter", "note": note})
	}
	switch incidentOf(m.Notification) {
	case opened, tried:
		r := a.post(ctx, alerts, header, o.alert(m, alias))
		if r.Err != nil || m.Type != wording.Test {
			return r
		}
		return end()
	case closed:
		return o.hasClosed(m, end())
	case unchanged:
	}
	return sink.Result{}
}

// alert returns what opens an incident.
func (o *opsgenie) alert(m *message, alias string) object {
	priority := "P1"
	switch m.Type {
	case wording.Test:
		priority = "P5"
	case "device.failed":
		priority = "P3"
	}
	details := m.details()
	delete(details, "text")
	if m.URL != "" {
		details["url"] = m.URL
	}
	return without(object{
		"message": fit{most: 130}.text(m.text.Title), "alias": alias, "description": fit{most: 15_000}.lines(m.text.Lines),
		"entity": fit{most: 512}.text(m.source()), "source": "Holter", "priority": priority, "details": details,
	})
}
