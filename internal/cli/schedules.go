package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// schedulesCommand manages schedules.
type schedulesCommand struct {
	List    plainList             `cmd:"" default:"withargs" help:"List the schedules, with their next run."`
	Get     getCommand            `cmd:"" help:"Show a schedule."`
	Set     scheduleSetCommand    `cmd:"" help:"Create or change a schedule."`
	Import  scheduleImportCommand `cmd:"" help:"Create schedules from a crontab."`
	Delete  changeCommand         `cmd:"" help:"Delete a schedule, with its history."`
	Pause   changeCommand         `cmd:"" help:"Skip its times."`
	Resume  changeCommand         `cmd:"" help:"Run it at its times again."`
	Run     scheduleRunCommand    `cmd:"" help:"Run it now, beside its times."`
	History schedulesHistory      `cmd:"" help:"List runs, the latest first."`
}

func schedules() list {
	return list{
		columns: []string{"SCHEDULE", "KIND", "STATE", "WHEN,least=12", "ZONE,spare", "NEXT,spare", "RUNS", "OWNER,spare", "SETTINGS,least=16"},
		row: rowOf(func(s *httpapi.Schedule) []any {
			state := activity(s.Paused)
			switch {
			case s.Paused:
				s.Next = time.Time{}
			case s.Next.IsZero():
				state = terminal.Cell{Text: "over", Paint: terminal.Faint}
			}
			return []any{s.Name, s.Kind, state, s.When, s.Zone, s.Next, s.Runs, s.Owner, string(s.Settings)}
		}),
	}
}

type scheduleSetCommand struct {
	apiFlags `json:"-"`
	jsonFlag `json:"-"`

	Name     string        `json:"-" arg:"" help:"Name of the schedule."`
	Kind     *string       `json:"kind,omitempty" placeholder:"KIND" help:"webhook, command, report or maintenance."`
	When     *string       `json:"when,omitempty" placeholder:"TEXT" help:"A crontab expression of 5, 6 (second first) or 7 fields (year last), @every 90s, or a time such as 2026-01-02T15:04:05Z."`
	Zone     *string       `json:"zone,omitempty" placeholder:"ZONE" help:"Time zone of the expression, such as Europe/Berlin. Default: UTC."`
	Settings *jsonText     `json:"settings,omitempty" placeholder:"JSON" help:"Settings of its kind, as a JSON object."`
	Overlap  *string       `json:"overlap,omitempty" placeholder:"POLICY" help:"If the previous run has not ended: skip, allow, or queue(N). Default: skip; for maintenance windows allow, and nothing else."`
	Misfire  *string       `json:"misfire,omitempty" placeholder:"POLICY" help:"For times that passed while nothing could run: once, skip, or all(N). Default: once."`
	Jitter   *milliseconds `json:"jitter_ms,omitempty" placeholder:"DURATION" help:"Start late by a random time below this. Default: 0s."`
	Once     *bool         `json:"at_most_once,omitempty" name:"at-most-once" negatable:"" help:"Count a run as lost if a crash ended it, instead of running it again."`
	New      bool          `json:"-" help:"Fail if a schedule with the name exists."`
}

// Help is the text below the usage line.
func (*scheduleSetCommand) Help() string {
	return `Options that are left out keep their values. Settings are one JSON object:

    webhook      {"endpoint":NAME or "url":URL, "body":JSON, "queue":NAME}
    command      {"command":PROGRAM, "args":[...], "shell":true, "dir":DIR, "timeout_ms":60000}
    report       {"endpoint" or "url", "queue", "device":PATTERN, "group":PATTERN, "min_offline_ms":N, "limit":1000}
    maintenance  {"for_ms":N, "device":PATTERN, "group":PATTERN, "silence":"counts" or "excused", "endpoint" or "url", "queue"}

Commands must be allowed where the server is started: HOLTER_DELIVERY_ALLOW_COMMANDS=true.

Examples:

    holter schedules set morning --kind report --when "0 7 * * mon-fri" --zone Europe/Berlin --settings '{"endpoint":"ops"}'
    holter schedules set update --kind maintenance --when "0 2 * * sun" --settings '{"for_ms":7200000,"group":"site-7"}'
    holter schedules set backup --kind command --when @daily --settings '{"command":"/usr/local/bin/backup"}'`
}

// Run creates or changes the schedule.
func (c *scheduleSetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if err := c.Settings.check(`{"endpoint":"ops"}`); err != nil {
		return err
	}
	query := ""
	if c.New {
		query = "?new=true"
	}
	var answer apiclient.Answer
	if err := put[httpapi.ScheduleSettings](ctx, api, "schedules", c.Name, query, c, &answer, nil); err != nil {
		return err
	}
	if c.JSON {
		return terminal.WriteJSON(out.stdout, answer.JSON)
	}
	var is httpapi.Schedule
	if err := answer.Decode(&is); err != nil {
		return err
	}
	next := "next run at " + terminal.Stamp(is.Next)
	switch {
	case is.Paused:
		next = "it is paused"
	case is.Next.IsZero():
		next = "it has no next run"
	}
	return say(out.stdout, "schedule %s set; %s", terminal.Printable(c.Name), next)
}

type scheduleRunCommand struct {
	apiFlags
	jsonFlag

	Name string `arg:"" help:"Name of the schedule."`
}

// Run asks for a run.
func (c *scheduleRunCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return ask(ctx, api, out, c.JSON, http.MethodPost, pathOf("schedules", c.Name)+"/run", nil, func(made *httpapi.ScheduleRun) error {
		return say(out.stdout, "run %d of %s starts as soon as a worker is free", made.Run, terminal.Printable(c.Name))
	})
}

type schedulesHistory struct {
	apiFlags
	listCommand

	Name  string   `query:"schedule" arg:"" optional:"" help:"Name of the schedule. Default: all."`
	State []string `query:"state" joined:"" placeholder:"STATE" help:"Only runs in this state: idle, claimed, running, done, failed, lost or skipped; may be repeated."`
	Limit int      `default:"20" placeholder:"N" help:"Show at most N; 0 for all. Default: 20."`
}

func scheduleRuns() list {
	return list{
		path: "schedule-runs", key: "runs", page: "before",
		columns: []string{
			"RUN", "SCHEDULE", "STATE", "SCHEDULED", "STARTED,spare", "TOOK,right,spare", "ERROR,least=16,spare",
			"OUTPUT,least=16,spare", // the widest: nothing is to be aligned after it
		},
		row: rowOf(func(r *httpapi.ScheduleRun) []any {
			took, text := "", strings.TrimSpace(r.Output)
			if !r.Started.IsZero() && !r.Ended.IsZero() {
				took = terminal.Span(r.Duration)
			}
			if r.State == "skipped" {
				text = fmt.Sprintf("%d in a row, because a run had not ended", r.Attempt)
			}
			return []any{r.Run, r.Schedule, painted(r.State), r.Scheduled, r.Started, took, r.Error, strings.ReplaceAll(text, "\n", " ↵ ")}
		}),
	}
}
