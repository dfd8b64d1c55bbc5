package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// PolicyChange is a policy for one device. Fields that are left out or 0 are taken from its group,
// from what it announces, or from the default.
type PolicyChange struct {
	Interval   float64  `json:"interval_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"Time between two heartbeats."`
	Timeout    float64  `json:"timeout_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"The heard silence after which it is offline."`
	LateAfter  float64  `json:"late_after_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"The heard silence after which it is late; off if it is not less than the timeout."`
	CloseGrace float64  `json:"close_grace_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"How long it may take to come back after its connection ended."`
	SleepLimit float64  `json:"sleep_limit_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"The longest sleep that it may announce."`
	Probes     int      `json:"probes,omitempty" minimum:"0" maximum:"100" doc:"Number of probes before it goes offline, if it is connected."`
	ProbeWait  float64  `json:"probe_wait_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"Time from one probe to the next, and from the last one to the verdict. Probes times this must be less than the timeout."`
	Recover    int      `json:"recover_after,omitempty" minimum:"0" maximum:"255" doc:"Number of heartbeats in a row after which it is online again when it was offline."`
	Learn      *Learn   `json:"learn,omitempty" doc:"What is done with the deadline that is learned of it."`
	Expect     string   `json:"expect,omitempty" maxLength:"256" doc:"When it is expected: a crontab expression and a time zone (default: UTC), as in 0 3 * * * Europe/Berlin. Its silence counts from the next of these instants; timeout_ms, 1 h if it is left out, is the grace from there."`
	Quiet      []string `json:"quiet,omitempty" maxItems:"16" doc:"Windows of the day in which silence does not count: days (default: all), hours, and a time zone (default: UTC), as in Mon-Fri 22:00-06:00 Europe/Berlin."`
}

// Learn is what a policy says of learned deadlines. Fields that are left out or 0 are taken from other
// policies.
type Learn struct {
	Mode   string  `json:"mode,omitempty" enum:"off,suggest,apply" doc:"off: none is in force; suggest: it is shown, and in force once it is applied; apply: it is in force, and follows what is learned."`
	Budget float64 `json:"budget,omitempty" minimum:"0.001" maximum:"1000" doc:"False alarms of the device that are accepted in a month of 30 days."`
	Max    float64 `json:"max_ms,omitempty" minimum:"0" maximum:"2678400000" doc:"The longest deadline that is put in force because it was learned."`
}

func learnOf(p liveness.Policy) *Learn {
	l := Learn{p.Learn.String(), p.LearnBudget, milliseconds(p.LearnMax)}
	if l == (Learn{}) {
		return nil
	}
	return &l
}

func (l *Learn) policy() (p liveness.Policy) {
	if l == nil {
		return p
	}
	p.Learn, _ = judgement.ParseLearnMode(l.Mode) // the schema has checked it
	p.LearnBudget, p.LearnMax = l.Budget, fromMilliseconds(l.Max)
	return p
}

type policyInput struct {
	ID      string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`
	IfMatch string `header:"If-Match" doc:"The ETag that GET answered with. If the policy has changed since, nothing is done, and the answer is 412."`
	Add     string `header:"If-None-Match" enum:"*" doc:"With * a device is made, which is never_seen until it is heard; the answer is 412 if there is one already."`
	Body    PolicyChange
}

type removePolicyInput struct {
	ID      string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`
	IfMatch string `header:"If-Match" doc:"The ETag that GET answered with. If the policy has changed since, nothing is done, and the answer is 412."`
}

// policy returns the policy; an error if it has windows or a schedule that are wrong.
func (c *PolicyChange) policy() (liveness.Policy, error) {
	of := fromMilliseconds
	quiet, err := judgement.ParseQuiet(c.Quiet)
	if err != nil {
		err = &requestError{http.StatusUnprocessableEntity, "body: quiet: " + err.Error()}
	}
	p := c.Learn.policy()
	if c.Expect != "" {
		var wrong error
		if p.Expect, wrong = judgement.ParseExpect(c.Expect, ""); wrong != nil {
			err = errors.Join(err, &requestError{http.StatusUnprocessableEntity, "body: expect: " + wrong.Error()})
		}
	}
	p.Interval, p.Timeout, p.LateAfter, p.CloseGrace, p.SleepLimit = of(c.Interval), of(c.Timeout), of(c.LateAfter), of(c.CloseGrace), of(c.SleepLimit)
	p.Probes, p.ProbeWait, p.RecoverAfter, p.Quiet = c.Probes, of(c.ProbeWait), c.Recover, quiet
	return p, err
}

func changeOf(p liveness.Policy) PolicyChange {
	return PolicyChange{
		Interval: milliseconds(p.Interval), Timeout: milliseconds(p.Timeout), LateAfter: milliseconds(p.LateAfter),
		CloseGrace: milliseconds(p.CloseGrace), SleepLimit: milliseconds(p.SleepLimit),
		Probes: p.Probes, ProbeWait: milliseconds(p.ProbeWait), Recover: p.RecoverAfter, Quiet: judgement.QuietWindows(p.Quiet), Expect: p.Expect,
		Learn: learnOf(p),
	}
}

func (a *API) registerAdmin(api huma.API) {
	add := func(id, method, path, summary, description string, problems ...int) huma.Operation {
		return operation("administration", id, method+" /v1/devices/{id}"+path, summary, description,
			append(problems, http.StatusNotFound)...)
	}
	change := func(done string, change func(id string) error) func(context.Context, *deviceInput) (Device, error) {
		return func(ctx context.Context, in *deviceInput) (Device, error) {
			return a.changedDevice(ctx, done, in.ID, change(in.ID))
		}
	}
	serveEmpty(a, api, add("forget-device", http.MethodDelete, "", "Forget a device",
		"Its connection is ended, and its last event is device.forgotten. If it is heard again, it is a new device whose event numbers continue; a device of the "+
			"configuration exists again after a restart."), a.forget)
	serveEmpty(a, api, add("disconnect-device", http.MethodPost, "/disconnect", "End the session of a device",
		"The device is told that an operator did so, and its connection is closed. It goes offline with the reason admin unless it comes back "+
			"within its close grace; this does not keep it from connecting again. 409: it has no session at this process, as for a device that is heard "+
			"by HTTP or through an external broker.", http.StatusConflict), a.disconnect)
	huma.Register(api, answers[PolicyChange](api, add("get-policy", http.MethodGet, "/policy", "A device's own policy",
		"As it was set at run time, empty if it was not. /v1/devices/{id} shows what is in force.")), a.ownPolicy)
	serve(a, api, add("set-policy", http.MethodPut, "/policy", "Give a device a policy of its own",
		"It overrides all others, field by field, and stays after a restart. It replaces the one that was set before. If-None-Match: * makes a device that was not heard yet.", http.StatusPreconditionFailed), a.setPolicy)
	serve(a, api, add("remove-policy", http.MethodDelete, "/policy", "Remove a device's own policy",
		"Those of its group, of what it announces, and the default apply again.", http.StatusPreconditionFailed), a.removePolicy)
	serve(a, api, add("start-maintenance", http.MethodPut, "/maintenance", "Begin maintenance of a device",
		"It is judged as usual, but its events are suppressed: routes deliver them only if they ask for all. Its silence does not count towards an outage of its group."),
		change("maintenance started", func(id string) error { return a.registry.SetMaintenance(id, true) }))
	serve(a, api, add("stop-maintenance", http.MethodDelete, "/maintenance", "End maintenance of a device",
		"Its events are no longer suppressed."),
		change("maintenance stopped", func(id string) error { return a.registry.SetMaintenance(id, false) }))
}

func (a *API) forget(ctx context.Context, in *deviceInput) error {
	return a.change(ctx, "forgotten", in.ID, a.registry.Forget(in.ID))
}

func (a *API) setPolicy(ctx context.Context, in *policyInput) (Device, error) {
	p, err := in.Body.policy()
	if err != nil {
		return Device{}, adminError(err)
	}
	if p == (liveness.Policy{}) {
		return Device{}, huma.Error422UnprocessableEntity("body: the policy is empty; give it a field, for instance timeout_ms, or use DELETE to remove one")
	}
	if in.Add != "" {
		err := a.registry.Add(in.ID, p)
		if errors.Is(err, liveness.ErrKnownDevice) {
			return Device{}, huma.Error412PreconditionFailed(fmt.Sprintf("%.80q exists already; nothing was changed", in.ID))
		}
		return a.changedDevice(ctx, "device added", in.ID, badPolicy(err))
	}
	return a.editPolicy(ctx, "policy set", in.ID, in.IfMatch, p)
}

func (a *API) removePolicy(ctx context.Context, in *removePolicyInput) (Device, error) {
	return a.editPolicy(ctx, "policy removed", in.ID, in.IfMatch, liveness.Policy{})
}

// editPolicy sets a device's own policy if the one before has the tag; none stands for any.
func (a *API) editPolicy(ctx context.Context, done, id, tag string, p liveness.Policy) (Device, error) {
	err := a.edit(ctx, id, condition{match: tag}, a.policySettings, func() error { return badPolicy(a.registry.SetPolicy(id, p)) })
	if _, ok := errors.AsType[huma.StatusError](err); ok {
		return Device{}, err
	}
	return a.changedDevice(ctx, done, id, err)
}

func (a *API) ownPolicy(ctx context.Context, in *deviceInput) (*tagged, error) {
	own, err := a.policySettings(ctx, in.ID)
	if err != nil {
		return nil, adminError(err)
	}
	return &tagged{a.tag(own), own.(PolicyChange)}, nil
}

// policySettings is the lookup of a device's own policy.
func (a *API) policySettings(_ context.Context, id string) (any, error) {
	p, err := a.registry.Operator().OwnPolicy(id)
	return changeOf(p), err
}

// badPolicy gives the error for a bad policy the names of the JSON fields. It returns other errors as they are.
func badPolicy(err error) error {
	if err == nil {
		return nil
	}
	if status, _ := problemOf(err); status != http.StatusUnprocessableEntity || errors.Is(err, liveness.ErrInvalidID) {
		return err
	}
	names := strings.NewReplacer("Interval", "interval_ms", "Timeout", "timeout_ms", "LateAfter", "late_after_ms", "CloseGrace", "close_grace_ms",
		"SleepLimit", "sleep_limit_ms", "Probes", "probes", "ProbeWait", "probe_wait_ms", "RecoverAfter", "recover_after", "Quiet", "quiet", "Expect", "expect", "LearnBudget", "learn.budget", "LearnMax", "learn.max_ms", "\n", "; ")
	if bare := errors.Unwrap(err); bare != nil { // without the device's id
		err = bare
	}
	return &requestError{http.StatusUnprocessableEntity, "body: " + names.Replace(err.Error())}
}

// changedDevice does what change does, and returns the device as it is now.
func (a *API) changedDevice(ctx context.Context, done, id string, err error) (Device, error) {
	if err := a.change(ctx, done, id, err); err != nil {
		return Device{}, err
	}
	return a.device(ctx, &deviceInput{ID: id})
}

func (a *API) disconnect(ctx context.Context, in *deviceInput) error {
	had, err := a.registry.Disconnect(in.ID)
	if err == nil && !had {
		return a.sessionless(in.ID)
	}
	return a.change(ctx, "disconnected", in.ID, err)
}

// sessionless returns the problem that a device has no session, with the source where it was last
// heard.
func (a *API) sessionless(id string) error {
	why := "the device has no session here that could be ended"
	if v, err := a.registry.Device(id); err == nil && !v.LastSeen.IsZero() {
		why += fmt.Sprintf("; it was heard last at %q, %v ago", v.Source, a.now().Sub(v.LastSeen).Truncate(time.Second))
	}
	return huma.Error409Conflict(why)
}

// change logs a change of a device unless err says that it failed. It waits until the change is
// stored, and returns a problem for any error.
func (a *API) change(ctx context.Context, what, device string, err error) error {
	if err == nil {
		a.logChange(ctx, what, "device", device)
	}
	if err = a.settled(ctx, err); err != nil {
		return adminError(err)
	}
	return nil
}

// adminError returns the problem for an error of the registry.
func adminError(err error) error {
	status, detail := problemOf(err)
	problem := huma.NewError(status, detail)
	if status == http.StatusServiceUnavailable {
		return huma.ErrorWithHeaders(problem, http.Header{"Retry-After": {"1"}})
	}
	return problem
}

// isUnknown reports whether an error says that a device is not known.
func isUnknown(err error) bool { return errors.Is(err, liveness.ErrUnknownDevice) }
