package exports

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// opsgenieFile says what [Opsgenie] reads.
const opsgenieFile = "the answer of GET /v2/heartbeats"

// heartbeat is a heartbeat as the API of Opsgenie has it.
type heartbeat struct {
	Name         string `json:"name"`
	Description  string `json:"description"`
	Interval     int64  `json:"interval"`
	IntervalUnit string `json:"intervalUnit"`
	Enabled      *bool  `json:"enabled"`
	OwnerTeam    struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"ownerTeam"`
	AlertTags     []string `json:"alertTags"`
	AlertPriority string   `json:"alertPriority"`
	AlertMessage  string   `json:"alertMessage"`
}

// Opsgenie reads the heartbeats that Opsgenie lists. A heartbeat that is wrong has an error, and does
// not keep the others from being read.
func Opsgenie(file []byte) ([]Check, error) {
	whole, err := document(file)
	if err != nil {
		return nil, err
	}
	var answer struct{ Data json.RawMessage }
	if json.Unmarshal(whole, &answer) == nil && len(answer.Data) > 0 {
		whole = answer.Data
	}
	list, err := listIn(whole, "heartbeats", opsgenieFile)
	if err != nil {
		return nil, err
	}
	checks := make([]Check, len(list))
	for i, raw := range list {
		checks[i] = heartbeatOf(raw)
		checks[i].Where = fmt.Sprintf("heartbeats[%d]", i)
	}
	return name(checks), nil
}

func heartbeatOf(raw json.RawMessage) Check {
	var h heartbeat
	err := decode(raw, &h)
	c := Check{Name: orUnnamed(h.Name), Err: err}
	if err != nil {
		return c
	}
	unit, ok := map[string]time.Duration{"minutes": time.Minute, "hours": time.Hour, "days": 24 * time.Hour}[h.IntervalUnit]
	switch {
	case h.Name == "":
		c.Err = errors.New("it has no name")
	case !ok:
		c.Err = fmt.Errorf("intervalUnit is %q; want minutes, hours or days", h.IntervalUnit)
	case h.Interval <= 0:
		c.Err = fmt.Errorf("interval is %d; want a number above 0", h.Interval)
	default:
		c.after(0, unit*time.Duration(min(h.Interval, int64(2*liveness.Never/unit))))
		c.OldURL = "https://api.opsgenie.com/v2/heartbeats/" + url.PathEscape(h.Name) + "/ping"
	}
	c.Paused = h.Enabled != nil && !*h.Enabled
	c.lose(h.OwnerTeam.ID+h.OwnerTeam.Name != "", "team: %s", cmp.Or(h.OwnerTeam.Name, h.OwnerTeam.ID))
	c.lose(len(h.AlertTags) > 0, "tags of the alert")
	c.lose(h.AlertPriority != "", "priority %s", h.AlertPriority)
	c.lose(h.AlertMessage != "", "message of the alert")
	c.lose(h.Description != "", "description")
	return c
}
