package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/schedule/cron"
)

// schedulesCommand looks after schedules.
type schedulesCommand struct {
	List    schedulesListCommand  `cmd:"" help:"List the schedules, with when they run next."`
	Set     scheduleSetCommand    `cmd:"" help:"Make or change a schedule."`
	Delete  scheduleDeleteCommand `cmd:"" help:"Delete a schedule, with its history."`
	Pause   schedulePauseCommand  `cmd:"" help:"Let its times pass without a run."`
	Resume  scheduleResumeCommand `cmd:"" help:"Let its times count again."`
	Run     scheduleRunCommand    `cmd:"" help:"Run it now, beside its times."`
	History schedulesHistory      `cmd:"" help:"List runs, with what came of them."`
}

type schedulesListCommand struct {
	apiFlags

	JSON bool `name:"json" help:"One JSON object a line."`
}

// Run lists the schedules.
func (c *schedulesListCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Schedules []httpapi.Schedule }
		if err := api.Get(ctx, "/v1/schedules", nil, &answer); err != nil {
			return err
		}
		g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "SCHEDULE"}, terminal.Column{Name: "KIND"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "WHEN", Least: 12},
			terminal.Column{Name: "ZONE", Spare: true}, terminal.Column{Name: "NEXT", Spare: true}, terminal.Column{Name: "RUNS", Right: true}, terminal.Column{Name: "SETTINGS", Least: 16})
		for _, s := range answer.Schedules {
			if c.JSON {
				if err := terminal.EncodeJSON(out.stdout, s); err != nil {
					return err
				}
				continue
			}
			state, next := terminal.Cell{Text: "at work", Paint: terminal.Green}, ""
			switch {
			case s.Paused:
				state = terminal.Cell{Text: "paused", Paint: terminal.Yellow}
			case s.Next.IsZero():
				state = terminal.Cell{Text: "over", Paint: terminal.Faint}
			default:
				next = terminal.Stamp(s.Next)
			}
			g.Add(terminal.Cell{Text: s.Name}, terminal.Cell{Text: s.Kind}, state, terminal.Cell{Text: s.When}, terminal.Cell{Text: s.Zone}, terminal.Cell{Text: next},
				terminal.Cell{Text: strconv.FormatUint(s.Runs, 10)}, terminal.Cell{Text: string(s.Settings)})
		}
		return g.Flush(out.stdout)
	})
}

type scheduleSetCommand struct {
	apiFlags

	Name     string         `arg:"" help:"Name of the schedule."`
	Kind     *string        `placeholder:"KIND" help:"webhook, command, report or maintenance."`
	When     *string        `placeholder:"TEXT" help:"A crontab expression, @every 90s, or an instant such as 2026-01-02T15:04:05Z."`
	Zone     *string        `placeholder:"ZONE" help:"Time zone of the expression, such as Europe/Berlin. Default: UTC."`
	Settings *string        `placeholder:"JSON" help:"Settings of its kind, as a JSON object."`
	Overlap  *string        `placeholder:"POLICY" help:"While a run goes on: skip, allow, or queue(N). Default: skip; of maintenance windows allow, and nothing else."`
	Misfire  *string        `placeholder:"POLICY" help:"Of times that passed while nothing could run: once, skip, or all(N). Default: once."`
	Jitter   *time.Duration `placeholder:"DURATION" help:"Begin a random time below this later. Default: 0s."`
	Once     *bool          `name:"at-most-once" negatable:"" help:"A run that a crash ended is lost instead of begun again."`
	New      bool           `help:"Fail if there is one with the name."`
}

// Help is the text below the usage line.
func (*scheduleSetCommand) Help() string {
	return `What is left out stays as it is. Settings are one JSON object:

    webhook      {"endpoint":NAME or "url":URL, "body":JSON, "queue":NAME}
    command      {"command":PROGRAM, "args":[...], "shell":true, "dir":DIR, "timeout_ms":60000}
    report       {"endpoint" or "url", "queue", "device":PATTERN, "group":PATTERN, "min_offline_ms":N, "limit":1000}
    maintenance  {"for_ms":N, "device":PATTERN, "group":PATTERN, "silence":"counts" or "excused", "endpoint" or "url", "queue"}

Commands have to be allowed where the server is started: HOLTER_DELIVERY_ALLOW_COMMANDS=true.

Examples:

    holter schedules set morning --kind report --when "0 7 * * mon-fri" --zone Europe/Berlin --settings '{"endpoint":"ops"}'
    holter schedules set update --kind maintenance --when "0 2 * * sun" --settings '{"for_ms":7200000,"group":"site-7"}'
    holter schedules set backup --kind command --when @daily --settings '{"command":"/usr/local/bin/backup"}'`
}

// Run makes or changes the schedule.
func (c *scheduleSetCommand) Run(ctx context.Context, out output) error {
	if c.Settings != nil && !json.Valid([]byte(*c.Settings)) {
		return orUsage("--settings: this is not JSON; write an object such as {\"endpoint\":\"ops\"}")
	}
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var was, is httpapi.Schedule
		if err := api.Get(ctx, pathOf("schedules", c.Name), nil, &was); err != nil && apiclient.StatusOf(err) != http.StatusNotFound {
			return err
		}
		body := was.ScheduleSettings
		for to, from := range map[*string]*string{
			&body.Kind: c.Kind, &body.When: c.When, &body.Zone: c.Zone, &body.Overlap: c.Overlap, &body.Misfire: c.Misfire,
		} {
			set(to, from)
		}
		set(&body.Once, c.Once)
		if c.Jitter != nil {
			body.Jitter = terminal.Milliseconds(*c.Jitter)
		}
		if c.Settings != nil {
			body.Settings = json.RawMessage(*c.Settings)
		}
		path := pathOf("schedules", c.Name)
		if c.New {
			path += "?new=true"
		}
		if err := api.Ask(ctx, http.MethodPut, path, body, &is); err != nil {
			return err
		}
		next := "next at " + terminal.Stamp(is.Next)
		switch {
		case is.Paused:
			next = "it is paused"
		case is.Next.IsZero():
			next = "it is over: no instant is left"
		}
		_, err := fmt.Fprintf(out.stdout, "schedule %s is set; %s\n", terminal.Printable(c.Name), next)
		return err
	})
}

type (
	scheduleDeleteCommand named
	schedulePauseCommand  named
	scheduleResumeCommand named
	scheduleRunCommand    named
)

// Run deletes the schedule.
func (c *scheduleDeleteCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "schedule", "", "is deleted")
}

// Run pauses the schedule.
func (c *schedulePauseCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodPut, "schedule", "/pause", "is paused")
}

// Run resumes the schedule.
func (c *scheduleResumeCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "schedule", "/pause", "is at work")
}

// Run asks for a run.
func (c *scheduleRunCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var run httpapi.ScheduleRun
		if err := api.Ask(ctx, http.MethodPost, pathOf("schedules", c.Name)+"/run", nil, &run); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "run %d of %s begins as soon as there is a worker\n", run.Run, terminal.Printable(c.Name))
		return err
	})
}

type schedulesHistory struct {
	apiFlags

	Name  string   `arg:"" optional:"" help:"Name of the schedule. Default: all."`
	State []string `placeholder:"STATE" help:"Only in these states: idle, claimed, running, done, failed, lost, skipped."`
	Limit int      `default:"20" placeholder:"N" help:"The most runs to show; 0 for all. Default: 20."`
	JSON  bool     `name:"json" help:"One JSON object a line."`
}

// Run lists runs, the latest first.
func (c *schedulesHistory) Run(ctx context.Context, out output) error {
	if c.Limit < 0 {
		return orUsage("--limit: it is negative; write 0 for all")
	}
	g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "RUN", Right: true}, terminal.Column{Name: "SCHEDULE"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "SCHEDULED"},
		terminal.Column{Name: "BEGAN", Spare: true}, terminal.Column{Name: "TOOK", Right: true, Spare: true}, terminal.Column{Name: "ERROR", Least: 16, Spare: true}, terminal.Column{Name: "OUTPUT", Least: 16, Spare: true})
	query := url.Values{}
	if c.Name != "" {
		query.Set("schedule", c.Name)
	}
	if len(c.State) > 0 {
		query.Set("state", strings.Join(c.State, ","))
	}
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		return pagedBy(ctx, api, "/v1/schedule-runs", "before", query, c.Limit, func(raw json.RawMessage) (n int, next uint64, err error) {
			var answer struct {
				Runs []httpapi.ScheduleRun
				Next uint64
			}
			if err := json.Unmarshal(raw, &answer); err != nil {
				return 0, 0, apiclient.NotOurs(api)
			}
			for i := range answer.Runs {
				if err := c.show(out, g, &answer.Runs[i]); err != nil {
					return 0, 0, err
				}
			}
			return len(answer.Runs), answer.Next, g.Flush(out.stdout)
		})
	})
}

func (c *schedulesHistory) show(out output, g *terminal.Grid, r *httpapi.ScheduleRun) error {
	if c.JSON {
		return terminal.EncodeJSON(out.stdout, r)
	}
	began, took, text := "", "", strings.TrimSpace(r.Output)
	if !r.Started.IsZero() {
		began = terminal.Stamp(r.Started)
	}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		took = terminal.Length(r.Duration)
	}
	if r.State == string(cron.Skipped) {
		text = fmt.Sprintf("%d in a row: a run still went on", r.Attempt)
	}
	g.Add(terminal.Cell{Text: strconv.FormatUint(r.Run, 10)}, terminal.Cell{Text: r.Schedule}, runOutcome(r.State), terminal.Cell{Text: terminal.Stamp(r.Scheduled)}, terminal.Cell{Text: began},
		terminal.Cell{Text: took}, terminal.Cell{Text: r.Error}, terminal.Cell{Text: strings.ReplaceAll(text, "\n", " ↵ ")}) // output is the widest: nothing is to be aligned after it
	return nil
}

// runOutcome paints the state of a run of a schedule.
func runOutcome(state string) terminal.Cell {
	switch cron.State(state) {
	case cron.Done:
		return terminal.Cell{Text: state, Paint: terminal.Green}
	case cron.Failed, cron.Lost:
		return terminal.Cell{Text: state, Paint: terminal.Red}
	case cron.Skipped:
		return terminal.Cell{Text: state, Paint: terminal.Yellow}
	default:
		return terminal.Cell{Text: state}
	}
}
