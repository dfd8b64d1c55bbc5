package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// Timers is a picture of a source's timer engine.
type Timers struct {
	Armed    int      `json:"armed"`
	Hints    int      `json:"hints"`
	Dead     int      `json:"dead"`
	Slots    int      `json:"slots"`
	Retired  int      `json:"retired"`
	Sweeps   uint64   `json:"sweeps"`
	Fired    uint64   `json:"fired"`
	Rejected uint64   `json:"rejected"`
	Panics   uint64   `json:"panics"`
	Queued   int      `json:"queued"`
	Spilled  uint64   `json:"spilled"`
	Refused  uint64   `json:"refused"`
	Lateness Lateness `json:"lateness_ms" doc:"Bounds that a share of all expiries was not later than."`
}

// Lateness is how late timers were, in milliseconds.
type Lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// Group is a picture of a group of devices.
type Group struct {
	Name    string         `json:"name"`
	Match   string         `json:"match" doc:"The pattern that ids of the group match."`
	Members int            `json:"members" doc:"Devices that were seen."`
	Silent  int            `json:"silent" doc:"Of them, offline without having said goodbye, and not in maintenance."`
	Outage  bool           `json:"outage"`
	States  map[string]int `json:"states" doc:"Its devices by state, as of counted_at."`
}

// Stats is a picture of the whole.
type Stats struct {
	Devices  int            `json:"devices"`
	States   map[string]int `json:"states" doc:"Devices by state, as they are shown: unknown and pending are states like others."`
	Queued   int            `json:"queued" doc:"Events that wait for the log."`
	Stalled  float64        `json:"stalled_ms" doc:"How long too many events have waited without one being stored: all listening clocks stand still. 0 if all is well."`
	Waits    uint64         `json:"waits" doc:"Times that a verdict was held up because too many events waited."`
	Fails    uint64         `json:"fails" doc:"Times that events could not be appended."`
	Lost     uint64         `json:"lost" doc:"Events that could not be appended when the process stopped."`
	Verdicts uint64         `json:"verdicts" doc:"Deadlines that passed and were judged."`
	Flaps    int            `json:"flaps" doc:"Devices that are flapping."`
	Oldest   uint64         `json:"oldest" doc:"Offset of the oldest event that is kept."`
	Latest   uint64         `json:"latest" doc:"Offset of the latest event; less than oldest if there is none."`
	Streams  int64          `json:"streams" doc:"Open streams of events."`
	Beats    uint64         `json:"beats" doc:"Heartbeats that were taken by HTTP."`
	Node     string         `json:"node"`
	Version  string         `json:"version"`
	Build    Build          `json:"build"`
	Started  time.Time      `json:"started"`
	AsOf     time.Time      `json:"as_of"`
}

// Build is what the program was built from.
type Build struct {
	Go       string `json:"go" doc:"Version of Go."`
	Platform string `json:"platform"`
	Revision string `json:"revision,omitempty" doc:"Of the source code, if it is known."`
	Time     string `json:"time,omitempty" doc:"Of the revision."`
	Modified bool   `json:"modified,omitempty" doc:"The source code was changed since the revision."`
}

type groupList struct {
	Groups    []Group        `json:"groups" doc:"In the order in which they are matched."`
	Others    map[string]int `json:"others" doc:"Devices of no group by state, as of counted_at."`
	CountedAt time.Time      `json:"counted_at"`
}

// GroupPolicy is the policy of a group's devices.
type GroupPolicy struct {
	Name   string       `json:"name"`
	Match  string       `json:"match" doc:"The pattern that ids of the group match."`
	Policy PolicyChange `json:"policy" doc:"What is left out is left to what the device announces, and to the default."`
}

type policyList struct {
	Groups  []GroupPolicy `json:"groups" doc:"In the order in which they are matched: a device has that of the first which matches."`
	Default Policy        `json:"default" doc:"What applies where no other rule does."`
}

func (a *API) registerOverview(api huma.API) {
	operation := func(id, path, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Description: description, Tags: []string{"overview"},
		}
	}
	serve(a, api, operation("list-groups", "/v1/groups", "Groups of devices",
		"Devices are counted at most once a second, in large fleets more seldom, so that counting takes a twentieth of a processor at most."),
		a.listGroups)
	serve(a, api, operation("list-policies", "/v1/policies", "Policies of groups, and the default",
		"A device's own policy stands above them; /v1/devices/{id} shows what holds for it, and from where."), a.listPolicies)
	serve(a, api, operation("get-stats", "/v1/stats", "Counts of devices and events", ""), a.stats)
}

func timersOf(st *timer.Stats) Timers {
	quantile := func(q float64) float64 { return milliseconds(st.Lateness.Quantile(q)) }
	return Timers{
		Armed: st.Armed, Hints: st.Hints, Dead: st.Dead, Slots: st.Slots, Retired: st.Retired, Sweeps: st.Sweeps, Fired: st.Fired,
		Rejected: st.Rejected, Panics: st.Panics, Queued: st.Queued, Spilled: st.Spilled, Refused: st.Refused,
		Lateness: Lateness{P50: quantile(0.5), P99: quantile(0.99), P999: quantile(0.999)},
	}
}

func (a *API) listGroups(context.Context, *struct{}) (groupList, error) {
	counts, at := a.groups.count(a.registry)
	of := func(group string) map[string]int {
		if c := counts[group]; c != nil {
			return c
		}
		return statesOf(func(liveness.State) int { return 0 })
	}
	return groupList{mapped(a.registry.Groups(), func(g *liveness.GroupView) Group {
		return Group{Name: g.Name, Match: g.Match, Members: g.Members, Silent: g.Silent, Outage: g.Outage, States: of(g.Name)}
	}), of(""), utc(at)}, nil
}

func (a *API) listPolicies(context.Context, *struct{}) (policyList, error) {
	return policyList{mapped(a.registry.Groups(), func(g *liveness.GroupView) GroupPolicy {
		return GroupPolicy{Name: g.Name, Match: g.Match, Policy: changeOf(g.Policy)}
	}), policyOf(a.registry.Policy(), "default", false)}, nil
}

func (a *API) stats(context.Context, *struct{}) (Stats, error) {
	st := a.registry.Stats()
	out := Stats{
		Devices: st.Devices, States: statesOf(func(s liveness.State) int { return st.States[s] }), Queued: st.Queued, Stalled: milliseconds(st.StalledFor), Waits: st.Waits,
		Fails: st.Fails, Lost: st.Lost, Verdicts: st.Verdicts, Flaps: st.Flaps, Streams: a.streams.Load(), Node: a.config.Node,
		Version: a.config.Version, Build: buildOf(), Started: utc(a.began), AsOf: utc(a.now()),
	}
	if a.ear != nil {
		out.Beats = a.ear.beats.Load()
	}
	out.Oldest, out.Latest = a.events.Bounds()
	return out, nil
}

func buildOf() Build {
	b := Build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
