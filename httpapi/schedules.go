package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/schedule"
	"github.com/holter-iot/holter/schedule/cron"
	"github.com/holter-iot/holter/store"
)

// ScheduleSettings say what is done when.
type ScheduleSettings struct {
	Kind     string          `json:"kind" doc:"webhook, command, report or maintenance; command only if the server was told to allow it. It stays what it is."`
	When     string          `json:"when" doc:"A crontab expression of 5 or 6 fields, @daily and the like, @every 90s, or an instant such as 2026-01-02T15:04:05Z."`
	Zone     string          `json:"zone,omitempty" doc:"The time zone that the expression is meant in, such as Europe/Berlin. Left out: UTC."`
	Settings json.RawMessage `json:"settings,omitempty" doc:"Of its kind. webhook: endpoint or url, body, queue. command: command, args, shell, dir, timeout_ms. report: endpoint or url, queue, device, group, min_offline_ms, limit. maintenance: for_ms, device, group, silence, endpoint or url, queue."`
	Overlap  string          `json:"overlap,omitempty" doc:"What becomes of an instant while a run goes on: skip, queue(N) for up to N that wait, or allow. Left out: skip; of maintenance windows allow, which is all that they know."`
	Misfire  string          `json:"misfire,omitempty" doc:"What becomes of instants that passed while nothing could run: once, one run stands for all; skip, unless it was within a minute; all(N), the N latest. Left out: once."`
	Jitter   float64         `json:"jitter_ms,omitempty" minimum:"0" doc:"Each run begins a random time below this after its instant. Left out: 0, which is all that maintenance windows know."`
	Once     bool            `json:"at_most_once,omitempty" doc:"A run that a crash ended is lost. Otherwise it is begun again, under the same id."`
	Paused   bool            `json:"paused,omitempty" doc:"Instants pass without a run."`
}

// Schedule is a schedule, and how far it is.
type Schedule struct {
	ScheduleSettings

	Name string    `json:"name"`
	Next time.Time `json:"next,omitzero" doc:"The next instant; left out while it is paused, and once it has none left."`
	Runs uint64    `json:"runs" doc:"Number of its latest run."`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	Run       uint64    `json:"run" doc:"Its id, the same each time that it is begun."`
	Schedule  string    `json:"schedule"`
	Kind      string    `json:"kind"`
	Number    uint64    `json:"number,omitempty" doc:"Among the runs of its schedule."`
	State     string    `json:"state" enum:"idle,claimed,running,done,failed,lost,skipped" doc:"idle: it is to be begun; claimed: it is about to; lost: who ran it is gone, and it must not be begun twice; skipped: there was no room for it."`
	Scheduled time.Time `json:"scheduled" doc:"The instant that it is for."`
	Manual    bool      `json:"manual,omitempty" doc:"Somebody asked for it."`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Duration  float64   `json:"duration_ms,omitempty"`
	Attempt   int       `json:"attempt,omitempty" doc:"How often it was begun. Of one that was skipped: how many instants in a row it stands for."`
	Owner     string    `json:"owner,omitempty" doc:"The process that is at it."`
	Code      int       `json:"code,omitempty" doc:"Exit code of a command."`
	Output    string    `json:"output,omitempty" doc:"The beginning of what came of it, up to 4 KiB: what a command wrote, the number of a job."`
	Error     string    `json:"error,omitempty"`
}

type scheduleInput struct {
	Name string `path:"name" maxLength:"64" doc:"Its name."`
	New  bool   `query:"new" doc:"It must not be there yet: 409 if it is."`
	Body ScheduleSettings
}

type scheduleOutput struct{ Body Schedule }

type schedulesOutput struct {
	Body struct {
		Schedules []Schedule `json:"schedules"`
	}
}

type scheduleRunOutput struct{ Body ScheduleRun }

type scheduleRunsInput struct {
	Schedule string   `query:"schedule" doc:"Only of this schedule."`
	State    []string `query:"state" enum:"idle,claimed,running,done,failed,lost,skipped" doc:"Only in these states, separated by commas."`
	Before   uint64   `query:"before" doc:"Only with a smaller id: next of the page before."`
	Limit    int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most runs of the page."`
}

type scheduleRunsOutput struct {
	Body struct {
		Runs []ScheduleRun `json:"runs"`
		Next uint64        `json:"next,omitempty" doc:"What to pass as before for the next page; left out on the last."`
	}
}

func (a *API) registerSchedules(api huma.API) {
	if a.config.Schedules == nil {
		return
	}
	const missing, exists = http.StatusNotFound, http.StatusConflict
	operation := func(id, method, path, summary, description string, problems ...int) huma.Operation {
		op := describe(id, method, path, summary, description, problems...)
		op.Tags = []string{"schedules"}
		return op
	}
	huma.Register(api, operation("list-schedules", http.MethodGet, "/v1/schedules", "List the schedules", "By name."), a.listSchedules)
	huma.Register(api, operation("get-schedule", http.MethodGet, "/v1/schedules/{name}", "Show a schedule", "", missing), a.getSchedule)
	huma.Register(api, operation("put-schedule", http.MethodPut, "/v1/schedules/{name}", "Make or change a schedule",
		"One whose instants are changed goes on from now; otherwise it goes on as it was. Runs that wait are run as it is then.", exists), a.putSchedule)
	huma.Register(api, operation("delete-schedule", http.MethodDelete, "/v1/schedules/{name}", "Delete a schedule",
		"With its history. A command that is running goes on; a maintenance window ends within some seconds.", missing), a.deleteSchedule)
	huma.Register(api, operation("pause-schedule", http.MethodPut, "/v1/schedules/{name}/pause", "Pause a schedule",
		"Instants pass without a run, and are left out for good. Runs that wait or go on are not disturbed.", missing), a.pauseSchedule)
	huma.Register(api, operation("resume-schedule", http.MethodDelete, "/v1/schedules/{name}/pause", "Resume a schedule", "", missing), a.resumeSchedule)
	huma.Register(api, operation("run-schedule", http.MethodPost, "/v1/schedules/{name}/run", "Run a schedule now",
		"Beside its instants, and also while it is paused. 409 if its overlap policy leaves no room.", missing, exists), a.runSchedule)
	huma.Register(api, operation("list-schedule-runs", http.MethodGet, "/v1/schedule-runs", "List the runs of schedules",
		"The latest first. Of each schedule the latest 100 that have ended are kept, for 30 days."), a.listScheduleRuns)
}

func scheduleOf(sc *store.Schedule) Schedule {
	out := Schedule{Name: sc.Name, Next: utc(sc.Due), Runs: sc.Runs, ScheduleSettings: ScheduleSettings{
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

// schedule returns what is to be kept.
func (s *ScheduleSettings) schedule(name string) (store.Schedule, error) {
	overlap, err := cron.ParseOverlap(s.Kind, s.Overlap)
	misfire, misfireErr := cron.ParseMisfire(s.Misfire)
	jitter := min(s.Jitter, milliseconds(maxDuration))
	return store.Schedule{
		Name: name, Kind: s.Kind, Spec: strings.TrimSpace(s.When), Zone: s.Zone, Settings: s.Settings, Overlap: int(overlap), Misfire: int(misfire),
		Jitter: time.Duration(jitter * float64(time.Millisecond)), Once: s.Once, Paused: s.Paused,
	}, errors.Join(err, misfireErr)
}

func scheduleRunOf(r *store.ScheduleRun) ScheduleRun {
	out := ScheduleRun{
		Run: r.ID, Schedule: r.Name, Kind: r.Kind, Number: r.Number, State: string(r.State), Scheduled: utc(r.Scheduled), Manual: r.Manual,
		Started: utc(r.Started), Ended: utc(r.Ended), Attempt: r.Attempt, Owner: r.Owner, Code: r.Code, Output: r.Output, Error: r.Error,
	}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		out.Duration = milliseconds(r.Ended.Sub(r.Started))
	}
	return out
}

func (a *API) listSchedules(ctx context.Context, _ *struct{}) (*schedulesOutput, error) {
	list, err := a.config.Schedules.List(ctx)
	if err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	out := &schedulesOutput{}
	out.Body.Schedules = make([]Schedule, len(list))
	for i := range list {
		out.Body.Schedules[i] = scheduleOf(&list[i])
	}
	return out, nil
}

func (a *API) getSchedule(ctx context.Context, in *nameInput) (*scheduleOutput, error) {
	sc, err := a.config.Schedules.Schedule(ctx, in.Name)
	if err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	return &scheduleOutput{scheduleOf(&sc)}, nil
}

func (a *API) putSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	sc, err := in.Body.schedule(in.Name)
	if err == nil {
		err = a.config.Schedules.Put(ctx, sc, in.New)
	}
	if err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	a.changedDelivery(ctx, "schedule set", "name", in.Name)
	return a.getSchedule(ctx, &nameInput{in.Name})
}

func (a *API) deleteSchedule(ctx context.Context, in *nameInput) (*struct{}, error) {
	if err := a.config.Schedules.Delete(ctx, in.Name); err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	a.changedDelivery(ctx, "schedule deleted", "name", in.Name)
	return nil, nil
}

func (a *API) pauseSchedule(ctx context.Context, in *nameInput) (*scheduleOutput, error) {
	return a.setPaused(ctx, in, true, "schedule paused")
}

func (a *API) resumeSchedule(ctx context.Context, in *nameInput) (*scheduleOutput, error) {
	return a.setPaused(ctx, in, false, "schedule resumed")
}

func (a *API) setPaused(ctx context.Context, in *nameInput, paused bool, what string) (*scheduleOutput, error) {
	if err := a.config.Schedules.Pause(ctx, in.Name, paused); err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	a.changedDelivery(ctx, what, "name", in.Name)
	return a.getSchedule(ctx, in)
}

func (a *API) runSchedule(ctx context.Context, in *nameInput) (*scheduleRunOutput, error) {
	run, err := a.config.Schedules.RunNow(ctx, in.Name)
	if err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	a.changedDelivery(ctx, "schedule run", "name", in.Name, "run", run.ID)
	return &scheduleRunOutput{scheduleRunOf(&run)}, nil
}

func (a *API) listScheduleRuns(ctx context.Context, in *scheduleRunsInput) (*scheduleRunsOutput, error) {
	f := store.ScheduleRunFilter{Name: in.Schedule, Before: in.Before}
	for _, state := range in.State {
		f.States = append(f.States, store.ScheduleState(state))
	}
	runs, err := a.config.Schedules.History(ctx, f, in.Limit)
	if err == nil && len(runs) == 0 && in.Schedule != "" {
		_, err = a.config.Schedules.Schedule(ctx, in.Schedule)
	}
	if err != nil {
		return nil, a.scheduleError(ctx, err)
	}
	out := &scheduleRunsOutput{}
	out.Body.Runs = make([]ScheduleRun, len(runs))
	for i := range runs {
		out.Body.Runs[i] = scheduleRunOf(&runs[i])
	}
	if len(runs) == in.Limit {
		out.Body.Next = runs[len(runs)-1].ID
	}
	return out, nil
}

// scheduleError makes a problem of what the schedules say.
func (a *API) scheduleError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, cron.ErrExists):
		return huma.Error409Conflict(err.Error())
	case errors.Is(err, cron.ErrBad):
		return huma.Error422UnprocessableEntity(strings.ReplaceAll(err.Error(), "\n", "; "))
	case errors.Is(err, cron.ErrBusy):
		return huma.Error409Conflict(strings.TrimPrefix(err.Error(), "cron: "))
	}
	return a.deliveryError(ctx, err)
}
