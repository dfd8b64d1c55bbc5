package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/schedule"
)

// ScheduleSettings are the settings of a schedule.
type ScheduleSettings struct {
	Kind     string          `json:"kind" doc:"webhook, command, report or maintenance; command only if the server allows it. It cannot be changed."`
	When     string          `json:"when" doc:"A crontab expression of 5 fields, 6 (second first) or 7 (year last), @daily and the like, @every 90s, or an instant such as 2026-01-02T15:04:05Z."`
	Zone     string          `json:"zone,omitempty" doc:"The time zone that the expression is meant in, such as Europe/Berlin. Left out: UTC."`
	Settings json.RawMessage `json:"settings,omitempty" doc:"Settings of its kind. webhook: endpoint or url, body, queue. command: command, args, shell, dir, timeout_ms. report: endpoint or url, queue, device, group, min_offline_ms, limit. maintenance: for_ms, device, group, silence, endpoint or url, queue."`
	Overlap  string          `json:"overlap,omitempty" doc:"What happens to an instant during a run: skip, queue(N) for up to N waiting runs, or allow. Left out: skip; for maintenance windows allow, and they accept nothing else."`
	Misfire  string          `json:"misfire,omitempty" doc:"What happens to instants that passed while nothing could run: once runs once for all of them; skip drops those older than a minute; all(N) runs the N latest. Left out: once."`
	Jitter   float64         `json:"jitter_ms,omitempty" minimum:"0" doc:"Each run starts a random time below this after its instant. Left out: 0; maintenance windows allow nothing else."`
	Once     bool            `json:"at_most_once,omitempty" doc:"A run that a crash ended is lost. Otherwise it is started again, with the same id."`
	Paused   bool            `json:"paused,omitempty" doc:"Its instants pass without a run."`
}

// Schedule is a schedule with its progress.
type Schedule struct {
	ScheduleSettings

	Name  string    `json:"name"`
	Next  time.Time `json:"next,omitzero" doc:"The next instant; left out while it is paused, and after its last instant."`
	Runs  uint64    `json:"runs" doc:"Number of its latest run."`
	Owner string    `json:"owner,omitempty" doc:"The process, of the judge, that runs it now; left out while no run has been claimed."`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	Run       uint64    `json:"run" doc:"Its id, which stays the same when it is started again."`
	Schedule  string    `json:"schedule"`
	Kind      string    `json:"kind"`
	Number    uint64    `json:"number,omitempty" doc:"Its number among the runs of its schedule."`
	State     string    `json:"state" enum:"idle,claimed,running,done,failed,lost,skipped" doc:"idle: it waits; claimed: it is about to start; lost: its process died, and it must not be started twice; skipped: its overlap policy left no room."`
	Scheduled time.Time `json:"scheduled" doc:"The instant that it is for."`
	Manual    bool      `json:"manual,omitempty" doc:"It was started by hand."`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Duration  float64   `json:"duration_ms,omitempty"`
	Attempt   int       `json:"attempt,omitempty" doc:"How often it was started. For a skipped run: how many instants in a row it stands for."`
	Owner     string    `json:"owner,omitempty" doc:"The process that runs it."`
	Code      int       `json:"code,omitempty" doc:"Exit code of a command."`
	Output    string    `json:"output,omitempty" doc:"Up to 4 KiB of its result: the output of a command, the number of a job."`
	Error     string    `json:"error,omitempty"`
}

type scheduleInput struct {
	Name        string `path:"name" maxLength:"64" doc:"Its name."`
	New         bool   `query:"new" doc:"Answers 409 if it exists already."`
	IfMatch     string `header:"If-Match" doc:"The ETag that GET answered with. If the settings have changed since, nothing is done, and the answer is 412."`
	IfNoneMatch string `header:"If-None-Match" doc:"With * the answer is 412 if it exists already."`
	Body        ScheduleSettings
}

type checkScheduleInput struct {
	Body struct {
		ScheduleSettings

		Name string `json:"name" doc:"Its name."`
	}
}

// ScheduleMistake is a mistake in the settings of a schedule.
type ScheduleMistake struct {
	Key     string `json:"key" doc:"Name of the setting; empty if it is in none alone."`
	Message string `json:"message"`
}

// ScheduleCheck is the result of a check.
type ScheduleCheck struct {
	OK       bool              `json:"ok" doc:"PUT would store it."`
	Mistakes []ScheduleMistake `json:"mistakes"`
	Next     []time.Time       `json:"next" doc:"Its first 5 instants, also if it is paused. Empty if there are mistakes in them."`
}

type scheduleList struct {
	Schedules []Schedule `json:"schedules"`
}

type scheduleRunsInput struct {
	Schedule string   `query:"schedule" doc:"Only of this schedule."`
	State    []string `query:"state" enum:"idle,claimed,running,done,failed,lost,skipped" doc:"Only in these states, separated by commas."`
	Before   uint64   `query:"before" doc:"Only with a smaller id: next of the previous page."`
	Limit    int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
}

type scheduleRunPage struct {
	Runs []ScheduleRun `json:"runs"`
	Next uint64        `json:"next,omitempty" doc:"Value of before for the next page; left out on the last page."`
}

func (a *API) registerSchedules(api huma.API) {
	if a.config.Schedules == nil {
		return
	}
	const missing, exists, changed = http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed
	engine := a.config.Schedules
	setPaused := func(paused bool, done string) func(context.Context, *editInput) (Schedule, error) {
		return func(ctx context.Context, in *editInput) (Schedule, error) {
			return a.changedSchedule(ctx, done, in.Name, a.edit(ctx, in.Name, condition{match: in.IfMatch}, a.scheduleSettings, func() error {
				return engine.Pause(ctx, in.Name, paused)
			}))
		}
	}
	serve(a, api, operation("schedules", "list-schedules", "GET /v1/schedules", "List the schedules", "By name."), a.listSchedules)
	serveTagged(a, api, operation("schedules", "get-schedule", "GET /v1/schedules/{name}", "Show a schedule", "With its next instant.", missing), a.scheduleSettings, a.getSchedule)
	serve(a, api, operation("schedules", "put-schedule", "PUT /v1/schedules/{name}", "Make or change a schedule",
		"A schedule whose instants change continues from now, others where they were. Waiting runs use the new settings.", exists, changed), a.putSchedule)
	check := operation("schedules", "check-schedule", "POST /v1/schedules/check", "Check a schedule", "The body is that of PUT, with a name. Nothing is stored.")
	check.SkipValidateBody = true // what is missing is a mistake that the answer has
	serve(a, api, check, a.checkSchedule)
	a.serveChange(api, operation("schedules", "delete-schedule", "DELETE /v1/schedules/{name}", "Delete a schedule",
		"Its history is deleted as well. A running command continues; a maintenance window ends within some seconds.", missing), "schedule deleted", a.scheduleSettings, engine.Delete)
	serve(a, api, operation("schedules", "pause-schedule", "PUT /v1/schedules/{name}/pause", "Pause a schedule",
		"Its instants pass without a run, and are not made up for. Waiting and running runs are not affected.", missing, changed), setPaused(true, "schedule paused"))
	serve(a, api, operation("schedules", "resume-schedule", "DELETE /v1/schedules/{name}/pause", "Resume a schedule", "From its next instant on.", missing, changed), setPaused(false, "schedule resumed"))
	serve(a, api, operation("schedules", "run-schedule", "POST /v1/schedules/{name}/run", "Run a schedule now",
		"In addition to its instants, and also while it is paused. 409 if its overlap policy leaves no room.", missing, exists), a.runSchedule)
	serve(a, api, operation("schedules", "list-schedule-runs", "GET /v1/schedule-runs", "List the runs of schedules",
		"The latest first. Of each schedule the latest 100 that have ended are kept, for 30 days."), a.listScheduleRuns)
}

func scheduleOf(sc *cron.Schedule) Schedule {
	out := Schedule{Name: sc.Name, Next: utc(sc.Due), Runs: sc.Runs, Owner: sc.Owner, ScheduleSettings: ScheduleSettings{
		Kind: sc.Kind, When: sc.Spec, Zone: sc.Zone, Settings: sc.Settings, Jitter: milliseconds(sc.Jitter), Once: sc.Once, Paused: sc.Paused,
	}}
	if o := schedule.Overlap(sc.Overlap); o != schedule.OverlapSkip {
		out.Overlap = o.String()
	}
	if m := schedule.Misfire(sc.Misfire); m != schedule.MisfireOnce {
		out.Misfire = m.String()
	}
	return out
}

// schedule returns the schedule to store.
func (s *ScheduleSettings) schedule(name string) (cron.Schedule, error) {
	overlap, err := cron.ParseOverlap(s.Kind, s.Overlap)
	misfire, misfireErr := cron.ParseMisfire(s.Misfire)
	return cron.Schedule{
		Name: name, Kind: s.Kind, Spec: strings.TrimSpace(s.When), Zone: s.Zone, Settings: s.Settings, Overlap: int(overlap), Misfire: int(misfire),
		Jitter: fromMilliseconds(s.Jitter), Once: s.Once, Paused: s.Paused,
	}, errors.Join(err, misfireErr)
}

func scheduleRunOf(r *cron.Run) ScheduleRun {
	out := ScheduleRun{
		Run: r.ID, Schedule: r.Name, Kind: r.Kind, Number: r.Number, State: string(r.State), Scheduled: utc(r.Scheduled), Manual: r.Manual,
		Started: utc(r.Started), Ended: utc(r.Ended), Attempt: r.Attempt, Owner: r.Owner, Code: r.Code, Output: r.Output, Error: r.Error,
	}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		out.Duration = milliseconds(r.Ended.Sub(r.Started))
	}
	return out
}

func (a *API) listSchedules(ctx context.Context, _ *struct{}) (scheduleList, error) {
	list, err := a.config.Schedules.List(ctx)
	return scheduleList{mapped(list, scheduleOf)}, err
}

func (a *API) getSchedule(ctx context.Context, in *nameInput) (Schedule, error) {
	sc, err := a.config.Schedules.Schedule(ctx, in.Name)
	return scheduleOf(&sc), err
}

func (a *API) putSchedule(ctx context.Context, in *scheduleInput) (Schedule, error) {
	sc, err := in.Body.schedule(in.Name)
	if err == nil {
		err = a.edit(ctx, in.Name, condition{in.IfMatch, in.IfNoneMatch}, a.scheduleSettings, func() error { return a.config.Schedules.Put(ctx, sc, in.New) })
	}
	return a.changedSchedule(ctx, "schedule set", in.Name, err)
}

// nextInstants is how many instants a check of a schedule shows.
const nextInstants = 5

func (a *API) checkSchedule(ctx context.Context, in *checkScheduleInput) (ScheduleCheck, error) {
	sc, wrong := in.Body.schedule(in.Body.Name)
	next, mistakes, err := a.config.Schedules.Validate(ctx, sc, nextInstants)
	if err != nil {
		return ScheduleCheck{}, err
	}
	mistakes = append(mistakes, cron.Mistakes(wrong)...)
	return ScheduleCheck{
		OK: len(mistakes) == 0, Next: mapped(next, func(at *time.Time) time.Time { return utc(*at) }),
		Mistakes: mapped(mistakes, func(m *cron.Mistake) ScheduleMistake { return ScheduleMistake{Key: m.Key, Message: m.Message} }),
	}, nil
}

// changedSchedule logs a change of a schedule and returns the schedule as it is now. It returns err
// if that is not nil.
func (a *API) changedSchedule(ctx context.Context, done, name string, err error) (Schedule, error) {
	if err := a.changedNamed(ctx, done, name, err); err != nil {
		return Schedule{}, err
	}
	return a.getSchedule(ctx, &nameInput{name})
}

func (a *API) runSchedule(ctx context.Context, in *nameInput) (ScheduleRun, error) {
	run, err := a.config.Schedules.RunNow(ctx, in.Name)
	if err == nil {
		a.logChange(ctx, "schedule run", "name", in.Name, "run", run.ID)
	}
	return scheduleRunOf(&run), err
}

func (a *API) listScheduleRuns(ctx context.Context, in *scheduleRunsInput) (scheduleRunPage, error) {
	f := cron.RunFilter{Name: in.Schedule, Before: in.Before}
	for _, state := range in.State {
		f.States = append(f.States, cron.State(state))
	}
	runs, err := a.config.Schedules.History(ctx, f, in.Limit)
	if err == nil && len(runs) == 0 && in.Schedule != "" {
		_, err = a.config.Schedules.Schedule(ctx, in.Schedule)
	}
	return scheduleRunPage{mapped(runs, scheduleRunOf), nextPage(runs, in.Limit, func(r *cron.Run) uint64 { return r.ID })}, err
}
