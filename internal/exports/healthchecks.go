package exports

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// healthchecksFile says what [Healthchecks] reads.
const healthchecksFile = "the answer of GET /api/v3/checks/"

// healthcheck is a check as the API of Healthchecks has it, versions 1 to 3.
type healthcheck struct {
	Name              string `json:"name"`
	Slug              string `json:"slug"`
	Tags              string `json:"tags"`
	Desc              string `json:"desc"`
	Grace             *int64 `json:"grace"`
	Timeout           *int64 `json:"timeout"`
	Schedule          string `json:"schedule"`
	Zone              string `json:"tz"`
	Status            string `json:"status"`
	ManualResume      bool   `json:"manual_resume"`
	Methods           string `json:"methods"`
	Channels          string `json:"channels"`
	UUID              string `json:"uuid"`
	UniqueKey         string `json:"unique_key"`
	PingURL           string `json:"ping_url"`
	Subject           string `json:"subject"`
	SubjectFail       string `json:"subject_fail"`
	FilterSubject     bool   `json:"filter_subject"`
	FilterBody        bool   `json:"filter_body"`
	FilterHTTPBody    bool   `json:"filter_http_body"`
	FilterDefaultFail bool   `json:"filter_default_fail"`
}

// Healthchecks reads the checks that Healthchecks lists. A check that is wrong has an error, and does
// not keep the others from being read.
func Healthchecks(file []byte) ([]Check, error) {
	whole, err := document(file)
	if err != nil {
		return nil, err
	}
	list, err := listIn(whole, "checks", healthchecksFile)
	if err != nil {
		return nil, err
	}
	checks := make([]Check, len(list))
	for i, raw := range list {
		checks[i] = healthcheckOf(raw)
		checks[i].Where = fmt.Sprintf("checks[%d]", i)
	}
	return name(checks), nil
}

func healthcheckOf(raw json.RawMessage) Check {
	var h healthcheck
	err := decode(raw, &h)
	key := h.UUID
	if key == "" {
		key = h.UniqueKey
	}
	c := Check{Name: orUnnamed(h.Name), Err: err, OldURL: h.PingURL, word: h.Slug, key: key}
	if err != nil {
		return c
	}
	c.Paused = h.Status == "paused" && h.ManualResume
	h.judge(&c)
	c.lose(h.Tags != "", "tags: %s", h.Tags)
	c.lose(h.Desc != "", "description")
	c.lose(h.Channels != "", "notifications by %d integrations", 1+strings.Count(h.Channels, ","))
	c.lose(h.Methods != "", "only %s counts as a ping", h.Methods)
	c.lose(h.FilterSubject || h.FilterBody || h.FilterHTTPBody || h.FilterDefaultFail || h.Subject != "" || h.SubjectFail != "",
		"keywords that make a ping a start, a success or a failure")
	c.lose(h.Status == "paused" && !h.ManualResume, "the pause, which ends with its first heartbeat")
	return c
}

// judge sets when the check fails.
func (h *healthcheck) judge(c *Check) {
	seconds := func(n *int64) time.Duration {
		if n == nil || *n < 0 {
			return 0
		}
		return time.Duration(min(*n, int64(2*liveness.Never/time.Second))) * time.Second
	}
	period, grace := seconds(h.Timeout), seconds(h.Grace)
	switch {
	case h.Grace == nil || grace == 0:
		c.Err = errors.New("grace is missing, or not above 0; want seconds")
	case h.Schedule != "":
		expect, err := judgement.ParseExpect(h.Schedule, h.Zone)
		switch {
		case err != nil && strings.ContainsAny(h.Schedule, ":\n"):
			c.Skip = fmt.Sprintf("its schedule is in the notation of systemd (OnCalendar), %q; \"holter run --expect\" takes a crontab expression", h.Schedule)
		case err != nil:
			c.Skip = fmt.Sprintf("its schedule %q in %q: %v", h.Schedule, h.Zone, err)
		}
		c.Policy.Expect = expect
		c.after(0, grace)
	case h.Timeout == nil || period == 0:
		c.Err = errors.New("it has neither a timeout above 0, in seconds, nor a schedule")
	default:
		c.Policy.Interval = period
		c.after(period, period+grace)
	}
}
