package exports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// kumaFile says what [UptimeKuma] reads.
const kumaFile = `a backup of Uptime Kuma 1, or what "sqlite3 -json kuma.db 'SELECT * FROM monitor'" prints`

// flag is a boolean that a database writes as 0 or 1.
type flag bool

// UnmarshalJSON implements [json.Unmarshaler].
func (f *flag) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true", "1":
		*f = true
	case "false", "0", "null":
		*f = false
	default:
		return fmt.Errorf("%.20s is neither true nor false", text)
	}
	return nil
}

// monitor is a monitor as a backup has it, and with underscores as the database has it.
type monitor struct {
	ID              int64             `json:"id"`
	Name            string            `json:"name"`
	Type            string            `json:"type"`
	Active          *flag             `json:"active"`
	Interval        int64             `json:"interval"`
	MaxRetries      int64             `json:"maxretries"`
	RetryInterval   int64             `json:"retryInterval"`
	RetryInterval2  int64             `json:"retry_interval"`
	ResendInterval  int64             `json:"resendInterval"`
	ResendInterval2 int64             `json:"resend_interval"`
	UpsideDown      flag              `json:"upsideDown"`
	UpsideDown2     flag              `json:"upside_down"`
	PushToken       string            `json:"pushToken"`
	PushToken2      string            `json:"push_token"`
	Description     string            `json:"description"`
	Tags            []json.RawMessage `json:"tags"`
	Notifications   json.RawMessage   `json:"notificationIDList"`
}

// UptimeKuma reads the monitors of Uptime Kuma. Those that report by themselves, by push, can be
// carried over. A monitor that is wrong has an error, and does not keep the others from being read.
func UptimeKuma(file []byte) ([]Check, error) {
	whole, err := document(file)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	at := ""
	if bytes.HasPrefix(bytes.TrimSpace(whole), []byte("[")) {
		err = json.Unmarshal(whole, &list)
	} else {
		at = "monitorList"
		list, err = listIn(whole, at, kumaFile)
	}
	if err != nil {
		return nil, err
	}
	checks := make([]Check, len(list))
	for i, raw := range list {
		checks[i] = monitorOf(raw)
		checks[i].Where = fmt.Sprintf("%s[%d]", at, i)
	}
	return name(checks), nil
}

func monitorOf(raw json.RawMessage) Check {
	var m monitor
	err := decode(raw, &m)
	c := Check{Name: orUnnamed(m.Name), Err: err, key: strconv.FormatInt(m.ID, 10)}
	if err != nil {
		return c
	}
	switch {
	case m.Type == "":
		c.Err = errors.New("it has no type; is this a list of monitors?")
		return c
	case m.Type == "group":
		c.Skip = "it is a group of monitors"
		return c
	case m.Type != "push":
		c.Skip = fmt.Sprintf("it is of the type %s: Holter polls nothing, it watches what reports by itself", m.Type)
		return c
	case bool(m.UpsideDown || m.UpsideDown2):
		c.Skip = "it is upside down: it is up while no heartbeat comes, and Holter has no such thing"
		return c
	}
	if token := m.PushToken + m.PushToken2; token != "" {
		c.OldURL = "/api/push/" + token
	}
	c.Paused = m.Active != nil && !bool(*m.Active)
	m.judge(&c)
	c.lose(len(m.Tags) > 0, "%d tags", len(m.Tags))
	c.lose(m.Description != "", "description")
	c.lose(len(m.Notifications) > len("null"), "notifications")
	c.lose(m.ResendInterval+m.ResendInterval2 > 0, "repeated notifications")
	return c
}

// judge sets when the monitor fails: after an interval, and as many more as there are retries.
func (m *monitor) judge(c *Check) {
	const most = int64(2 * liveness.Never / time.Second)
	retry := m.RetryInterval + m.RetryInterval2
	switch {
	case m.Interval <= 0:
		c.Err = fmt.Errorf("interval is %d; want seconds above 0", m.Interval)
		return
	case m.MaxRetries < 0 || retry < 0:
		c.Err = errors.New("maxretries or retryInterval is negative")
		return
	case retry == 0:
		retry = m.Interval
	}
	more := most
	if m.MaxRetries <= most/retry {
		more = retry * m.MaxRetries
	}
	interval := time.Duration(min(m.Interval, most)) * time.Second
	c.Policy.Interval = interval
	c.after(interval, interval+time.Duration(more)*time.Second)
}
