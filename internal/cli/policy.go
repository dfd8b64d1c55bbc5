package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

type policyCommand struct {
	apiFlags `json:"-"`

	Device     string         `json:"-" arg:"" help:"Id of the device."`
	Timeout    *orNever       `json:"timeout_ms,omitempty" placeholder:"DURATION" help:"Heard silence after which it is offline, or never."`
	Interval   *milliseconds  `json:"interval_ms,omitempty" placeholder:"DURATION" help:"Expected time between two heartbeats."`
	LateAfter  *milliseconds  `json:"late_after_ms,omitempty" placeholder:"DURATION" help:"Heard silence after which it is late."`
	CloseGrace *milliseconds  `json:"close_grace_ms,omitempty" placeholder:"DURATION" help:"Time to come back after its connection ended."`
	SleepLimit *milliseconds  `json:"sleep_limit_ms,omitempty" placeholder:"DURATION" help:"Longest sleep it may announce."`
	Probes     *int           `json:"probes,omitempty" placeholder:"N" help:"How often it is asked for a sign of life before it is offline."`
	ProbeWait  *milliseconds  `json:"probe_wait_ms,omitempty" placeholder:"DURATION" help:"Time from one of these questions to the next, and to the verdict."`
	Recover    *int           `name:"recover-after" json:"recover_after,omitempty" placeholder:"N" help:"How many heartbeats in a row it sends before it is online again."`
	Quiet      []string       `json:"quiet,omitempty" sep:"none" placeholder:"WINDOW" help:"Window of the day in which its silence does not count; may be repeated."`
	Expect     string         `json:"expect,omitempty" placeholder:"CRON" help:"When it is expected, such as \"0 3 * * * Europe/Berlin\": its silence counts from the next of these instants."`
	Learn      string         `json:"-" placeholder:"MODE" help:"What is done with the deadline that is learned of it: off, suggest or apply."`
	Budget     string         `name:"learn-budget" json:"-" placeholder:"N/month" help:"False alarms that are accepted, as in 1/month, 3/week or 0.1/day."`
	LearnMax   *milliseconds  `json:"-" placeholder:"DURATION" help:"Longest deadline that may be learned."`
	Learning   *httpapi.Learn `kong:"-" json:"learn,omitempty"`
	Clear      bool           `json:"-" help:"Take its own policy away: that of its group, of itself, or of the fleet applies again."`
}

// Help is the text below the usage line.
func (*policyCommand) Help() string {
	return `The policy overrides all others and the configuration, and replaces one that was set before. Options that are left out are taken from the others.

Examples:

    holter devices policy site-7/pump-3 --timeout 2m
    holter devices policy site-7/pump-3 --timeout never
    holter devices policy site-7/pump-3 --timeout 5m --quiet "22:00-06:00 Europe/Berlin" --quiet "Sat,Sun 00:00-24:00"
    holter devices policy nightly-backup --expect "0 3 * * * Europe/Berlin" --timeout 30m
    holter devices policy site-7/pump-3 --clear`
}

// learning returns what the flags say of learned deadlines; nil if nothing.
func (c *policyCommand) learning() (l *httpapi.Learn, err error) {
	if c.Learn == "" && c.Budget == "" && c.LearnMax == nil {
		return nil, nil
	}
	l = &httpapi.Learn{Mode: c.Learn}
	if c.LearnMax != nil {
		l.Max = terminal.Milliseconds(time.Duration(*c.LearnMax))
	}
	if c.Learn != "" {
		if _, err = judgement.ParseLearnMode(c.Learn); err != nil {
			return nil, fmt.Errorf("--learn: %w", err)
		}
	}
	if c.Budget != "" {
		if l.Budget, err = judgement.ParseLearnBudget(c.Budget); err != nil {
			return nil, fmt.Errorf("--learn-budget: %w", err)
		}
	}
	return l, nil
}

// orNever is a duration, or the word never.
type orNever time.Duration

// Decode implements kong.MapperValue.
func (d *orNever) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	if text == "never" {
		*d = orNever(liveness.Never)
		return nil
	}
	v, err := duration.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration of at most 366 days; write 90s, 5m, 1h30m or 1d, or never", text)
	}
	*d = orNever(v)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (d orNever) MarshalJSON() ([]byte, error) { return milliseconds(d).MarshalJSON() }

// Run sets or clears the policy.
func (c *policyCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	err := c.check(command)
	nothing := reflect.DeepEqual(*c, policyCommand{apiFlags: c.apiFlags, Device: c.Device, Clear: c.Clear})
	switch {
	case err != nil:
		return usageError{err}
	case c.Clear && !nothing:
		return usageError{errors.New("--clear takes the policy away: give it alone, or leave it out")}
	case c.Clear:
		return tell(ctx, api, out, "devices", c.Device, http.MethodDelete, "/policy", nil, "has no policy of its own any more")
	case nothing:
		return usageError{errors.New("say what the policy is, as in --timeout 2m, or --clear to take it away")}
	}
	return tell(ctx, api, out, "devices", c.Device, http.MethodPut, "/policy", c, "has a policy of its own")
}

// check rejects values that are out of range.
func (c *policyCommand) check(command *kong.Context) (err error) {
	for _, flag := range command.Flags() {
		if flag.Target.Kind() != reflect.Pointer || flag.Target.IsNil() || flag.Target.Elem().Kind() != reflect.Int64 {
			continue // not given, or no duration
		}
		switch d := time.Duration(flag.Target.Elem().Int()); {
		case d <= 0:
			err = errors.Join(err, fmt.Errorf("--%s: %v is not above 0; leave it out to take that of the other policies", flag.Name, d))
		case d > liveness.Never:
			err = errors.Join(err, fmt.Errorf("--%s: %v is more than the longest, 366 days (%v)", flag.Name, d, liveness.Never))
		}
	}
	if c.Recover != nil && (*c.Recover < 1 || *c.Recover > 255) {
		err = errors.Join(err, fmt.Errorf("--recover-after: %d is not 1 to 255; leave it out to take that of the other policies", *c.Recover))
	}
	if _, wrong := judgement.ParseQuiet(c.Quiet); wrong != nil {
		err = errors.Join(err, fmt.Errorf("--quiet: %w", wrong))
	}
	if c.Expect != "" {
		if _, wrong := judgement.ParseExpect(c.Expect, ""); wrong != nil {
			err = errors.Join(err, fmt.Errorf("--expect: %w", wrong))
		}
	}
	learning, wrong := c.learning()
	c.Learning, err = learning, errors.Join(err, wrong)
	if c.Probes != nil && (*c.Probes < 1 || *c.Probes > 100) {
		err = errors.Join(err, fmt.Errorf("--probes: %d is not 1 to 100; leave it out to take that of the other policies", *c.Probes))
	}
	return err
}
