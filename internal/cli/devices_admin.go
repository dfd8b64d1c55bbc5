package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
)

// deviceCommand administers one device.
type deviceCommand struct {
	Forget      forgetCommand      `cmd:"" help:"Remove a device, with its state and its own policy."`
	Disconnect  disconnectCommand  `cmd:"" help:"End the session of a device, without forgetting it."`
	Policy      policyCommand      `cmd:"" help:"Give a device a policy of its own, or take it away."`
	Maintenance maintenanceCommand `cmd:"" help:"Say that somebody works on a device, or no longer."`
}

type forgetCommand struct {
	apiFlags

	Device string `arg:"" help:"Id of the device."`
}

// Help is the text below the usage line.
func (*forgetCommand) Help() string {
	return `A connected device is cut off. One that is heard again, or is in the configuration, begins anew; its events stay as long as events are kept.

Example:

    holter device forget site-7/pump-3`
}

// Run removes the device.
func (c *forgetCommand) Run(ctx context.Context, out output) error {
	return administer(ctx, out, &c.apiFlags, c.Device, http.MethodDelete, "", nil, "forgotten")
}

type disconnectCommand struct {
	apiFlags

	Device string `arg:"" help:"Id of the device."`
}

// Help is the text below the usage line.
func (*disconnectCommand) Help() string {
	return `The device is told that an operator ended its session. It may come back at once; if it does not within its close grace, it is offline, for the reason admin.

Example:

    holter device disconnect site-7/pump-3`
}

// Run ends the device's session.
func (c *disconnectCommand) Run(ctx context.Context, out output) error {
	return administer(ctx, out, &c.apiFlags, c.Device, http.MethodPost, "/disconnect", nil, "disconnected")
}

type policyCommand struct {
	apiFlags

	Device     string         `arg:"" help:"Id of the device."`
	Timeout    *orNever       `placeholder:"DURATION" help:"Heard silence after which it is offline, or never."`
	Interval   *time.Duration `placeholder:"DURATION" help:"Expected between two heartbeats."`
	LateAfter  *time.Duration `placeholder:"DURATION" help:"Heard silence after which it is late."`
	CloseGrace *time.Duration `placeholder:"DURATION" help:"Time to come back after its connection ended."`
	SleepLimit *time.Duration `placeholder:"DURATION" help:"Longest sleep it may announce."`
	Probes     *int           `placeholder:"N" help:"How often it is asked for a sign of life before it is offline."`
	ProbeWait  *time.Duration `placeholder:"DURATION" help:"From one of these questions to the next, and to the verdict."`
	Clear      bool           `help:"Take its own policy away: that of its group, of itself, or of the fleet holds again."`
}

// Help is the text below the usage line.
func (*policyCommand) Help() string {
	return `The policy stands above all others, and above the configuration; it replaces one that was set before. What it leaves out is taken from the others.

Examples:

    holter device policy site-7/pump-3 --timeout 2m
    holter device policy site-7/pump-3 --timeout never
    holter device policy site-7/pump-3 --clear`
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
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration of at most 366 days; write 90s, 5m or 1h30m, or never", text)
	}
	*d = orNever(v)
	return nil
}

// policyBody is what the API takes for a policy.
type policyBody struct {
	Interval   float64 `json:"interval_ms,omitempty"`
	Timeout    float64 `json:"timeout_ms,omitempty"`
	LateAfter  float64 `json:"late_after_ms,omitempty"`
	CloseGrace float64 `json:"close_grace_ms,omitempty"`
	SleepLimit float64 `json:"sleep_limit_ms,omitempty"`
	Probes     int     `json:"probes,omitempty"`
	ProbeWait  float64 `json:"probe_wait_ms,omitempty"`
}

// Run sets or clears the policy.
func (c *policyCommand) Run(ctx context.Context, out output) error {
	body, given, err := c.body()
	switch {
	case err != nil:
		return usageError{err}
	case c.Clear && given:
		return usageError{errors.New("--clear takes the policy away: give it alone, or leave it out")}
	case c.Clear:
		return administer(ctx, out, &c.apiFlags, c.Device, http.MethodDelete, "/policy", nil, "has no policy of its own any more")
	case !given:
		return usageError{errors.New("say what the policy is, as in --timeout 2m, or --clear to take it away")}
	}
	return administer(ctx, out, &c.apiFlags, c.Device, http.MethodPut, "/policy", body, "has a policy of its own")
}

// body returns what was given, and whether anything was.
func (c *policyCommand) body() (body policyBody, given bool, err error) {
	for _, f := range []struct {
		name string
		from *time.Duration
		to   *float64
	}{
		{"timeout", (*time.Duration)(c.Timeout), &body.Timeout},
		{"interval", c.Interval, &body.Interval},
		{"late-after", c.LateAfter, &body.LateAfter},
		{"close-grace", c.CloseGrace, &body.CloseGrace},
		{"sleep-limit", c.SleepLimit, &body.SleepLimit},
		{"probe-wait", c.ProbeWait, &body.ProbeWait},
	} {
		if f.from == nil {
			continue
		}
		if *f.from <= 0 {
			err = errors.Join(err, fmt.Errorf("--%s: %v is not above 0; leave it out to take that of the other policies", f.name, *f.from))
		}
		if *f.from > liveness.Never {
			err = errors.Join(err, fmt.Errorf("--%s: %v is more than the longest, 366 days (%v)", f.name, *f.from, liveness.Never))
		}
		given, *f.to = true, terminal.Milliseconds(*f.from)
	}
	if c.Probes != nil {
		if *c.Probes < 1 || *c.Probes > 100 {
			err = errors.Join(err, fmt.Errorf("--probes: %d is not 1 to 100; leave it out to take that of the other policies", *c.Probes))
		}
		given, body.Probes = true, *c.Probes
	}
	return body, given, err
}

type maintenanceCommand struct {
	apiFlags

	Device string `arg:"" help:"Id of the device."`
	Switch string `arg:"" enum:"on,off" help:"on or off."`
}

// Help is the text below the usage line.
func (*maintenanceCommand) Help() string {
	return `A device in maintenance is judged as ever, but its events say so, and nobody needs to be alarmed by them.

Example:

    holter device maintenance site-7/pump-3 on`
}

// Run switches maintenance.
func (c *maintenanceCommand) Run(ctx context.Context, out output) error {
	if c.Switch == "on" {
		return administer(ctx, out, &c.apiFlags, c.Device, http.MethodPut, "/maintenance", nil, "is in maintenance")
	}
	return administer(ctx, out, &c.apiFlags, c.Device, http.MethodDelete, "/maintenance", nil, "is not in maintenance any more")
}

// administer changes a device, and says what became of it.
func administer(ctx context.Context, out output, flags *apiFlags, device, method, path string, body any, done string) error {
	if device == "" {
		return usageError{errors.New("the device id is empty")}
	}
	api, err := flags.client()
	if err != nil {
		return err
	}
	defer api.Close()
	if err := api.Ask(ctx, method, apiclient.DevicePath(device)+path, body, nil); err != nil {
		return unknownDevice(err, device)
	}
	_, err = fmt.Fprintf(out.stdout, "%s %s\n", terminal.Printable(device), done)
	return err
}

// unknownDevice says of a 404 which device is meant.
func unknownDevice(err error, device string) error {
	if r, ok := errors.AsType[*apiclient.Error](err); ok && r.Status == http.StatusNotFound {
		return fmt.Errorf("unknown device %q: %s", device, terminal.Printable(r.Detail))
	}
	return err
}
