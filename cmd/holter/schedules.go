package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/schedule/cron"
	"github.com/holter-iot/holter/store"
)

// buildSchedules makes what runs schedules.
func (s *server) buildSchedules() error {
	commands, err := commandsAllowed()
	if err != nil {
		return badConfig(err)
	}
	if s.cron, err = cron.New(s.store, s.delivery, s.registry, cron.Config{Logger: s.log, Commands: commands}); err != nil {
		return err
	}
	s.edges = append(s.edges, s.cron.Run)
	s.metrics = append(s.metrics, newScheduleCollector(s.cron))
	return nil
}

// scheduleCollector shows an engine's Stats to Prometheus.
type scheduleCollector struct {
	engine                          *cron.Engine
	running, windows, runs, started *prometheus.Desc
}

func newScheduleCollector(e *cron.Engine) *scheduleCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holter_schedule_"+name, help, labels, nil)
	}
	return &scheduleCollector{
		engine:  e,
		running: desc("running", "Runs of schedules that are going on, maintenance windows not counted."),
		windows: desc("windows_open", "Maintenance windows that are open."),
		runs:    desc("runs_total", "Runs by what became of them: done, failed, lost, idle (to be begun again); skipped counts instants.", "state"),
		started: desc("lateness_seconds", "How long after their instants runs began."),
	}
}

// Describe implements prometheus.Collector.
func (c *scheduleCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.running, c.windows, c.runs, c.started} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *scheduleCollector) Collect(out chan<- prometheus.Metric) {
	st := c.engine.Stats()
	out <- prometheus.MustNewConstMetric(c.running, prometheus.GaugeValue, float64(st.Running))
	out <- prometheus.MustNewConstMetric(c.windows, prometheus.GaugeValue, float64(st.Windows))
	for _, state := range []store.ScheduleState{store.ScheduleDone, store.ScheduleFailed, store.ScheduleLost, store.ScheduleSkipped, store.ScheduleIdle} {
		out <- prometheus.MustNewConstMetric(c.runs, prometheus.CounterValue, float64(st.Ended[state]), string(state))
	}
	count, buckets := uint64(0), make(map[float64]uint64)
	for i, bound := range cron.LateBounds() {
		count += st.Late[i]
		buckets[bound.Seconds()] = count
	}
	count += st.Late[len(st.Late)-1]
	out <- prometheus.MustNewConstHistogram(c.started, count, st.LateSum.Seconds(), buckets)
}

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
	return asked(&c.apiFlags, func(api *client) error {
		var answer struct{ Schedules []httpapi.Schedule }
		if err := api.get(ctx, "/v1/schedules", nil, &answer); err != nil {
			return err
		}
		g := newGrid(screenOf(out.stdout), column{name: "SCHEDULE"}, column{name: "KIND"}, column{name: "STATE"}, column{name: "WHEN", least: 12},
			column{name: "ZONE", spare: true}, column{name: "NEXT", spare: true}, column{name: "RUNS", right: true}, column{name: "SETTINGS", least: 16})
		for _, s := range answer.Schedules {
			if c.JSON {
				if err := encodeJSON(out.stdout, s); err != nil {
					return err
				}
				continue
			}
			state, next := cell{"at work", green}, ""
			switch {
			case s.Paused:
				state = cell{"paused", yellow}
			case s.Next.IsZero():
				state = cell{"over", faint}
			default:
				next = stamp(s.Next)
			}
			g.add(cell{text: s.Name}, cell{text: s.Kind}, state, cell{text: s.When}, cell{text: s.Zone}, cell{text: next},
				cell{text: strconv.FormatUint(s.Runs, 10)}, cell{text: string(s.Settings)})
		}
		return g.flush(out.stdout)
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
	return asked(&c.apiFlags, func(api *client) error {
		var was, is httpapi.Schedule
		if err := api.get(ctx, pathOf("schedules", c.Name), nil, &was); err != nil && statusOf(err) != http.StatusNotFound {
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
			body.Jitter = milliseconds(*c.Jitter)
		}
		if c.Settings != nil {
			body.Settings = json.RawMessage(*c.Settings)
		}
		path := pathOf("schedules", c.Name)
		if c.New {
			path += "?new=true"
		}
		if err := api.ask(ctx, http.MethodPut, path, body, &is); err != nil {
			return err
		}
		next := "next at " + stamp(is.Next)
		switch {
		case is.Paused:
			next = "it is paused"
		case is.Next.IsZero():
			next = "it is over: no instant is left"
		}
		_, err := fmt.Fprintf(out.stdout, "schedule %s is set; %s\n", printable(c.Name), next)
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
	return asked(&c.apiFlags, func(api *client) error {
		var run httpapi.ScheduleRun
		if err := api.ask(ctx, http.MethodPost, pathOf("schedules", c.Name)+"/run", nil, &run); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "run %d of %s begins as soon as there is a worker\n", run.Run, printable(c.Name))
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
	g := newGrid(screenOf(out.stdout), column{name: "RUN", right: true}, column{name: "SCHEDULE"}, column{name: "STATE"}, column{name: "SCHEDULED"},
		column{name: "BEGAN", spare: true}, column{name: "TOOK", right: true, spare: true}, column{name: "ERROR", least: 16, spare: true}, column{name: "OUTPUT", least: 16, spare: true})
	query := url.Values{}
	if c.Name != "" {
		query.Set("schedule", c.Name)
	}
	if len(c.State) > 0 {
		query.Set("state", strings.Join(c.State, ","))
	}
	return asked(&c.apiFlags, func(api *client) error {
		return pagedBy(ctx, api, "/v1/schedule-runs", "before", query, c.Limit, func(raw json.RawMessage) (n int, next uint64, err error) {
			var answer struct {
				Runs []httpapi.ScheduleRun
				Next uint64
			}
			if err := json.Unmarshal(raw, &answer); err != nil {
				return 0, 0, errNotOurs(api)
			}
			for i := range answer.Runs {
				if err := c.show(out, g, &answer.Runs[i]); err != nil {
					return 0, 0, err
				}
			}
			return len(answer.Runs), answer.Next, g.flush(out.stdout)
		})
	})
}

func (c *schedulesHistory) show(out output, g *grid, r *httpapi.ScheduleRun) error {
	if c.JSON {
		return encodeJSON(out.stdout, r)
	}
	began, took, text := "", "", strings.TrimSpace(r.Output)
	if !r.Started.IsZero() {
		began = stamp(r.Started)
	}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		took = length(r.Duration)
	}
	if r.State == string(store.ScheduleSkipped) {
		text = fmt.Sprintf("%d in a row: a run still went on", r.Attempt)
	}
	g.add(cell{text: strconv.FormatUint(r.Run, 10)}, cell{text: r.Schedule}, runOutcome(r.State), cell{text: stamp(r.Scheduled)}, cell{text: began},
		cell{text: took}, cell{text: r.Error}, cell{text: strings.ReplaceAll(text, "\n", " ↵ ")}) // output is the widest: nothing is to be aligned after it
	return nil
}

// runOutcome paints the state of a run of a schedule.
func runOutcome(state string) cell {
	switch store.ScheduleState(state) {
	case store.ScheduleDone:
		return cell{state, green}
	case store.ScheduleFailed, store.ScheduleLost:
		return cell{state, red}
	case store.ScheduleSkipped:
		return cell{state, yellow}
	default:
		return cell{text: state}
	}
}
