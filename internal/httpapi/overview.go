package httpapi

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// Timers is a snapshot of a source's timer engine.
type Timers struct {
	timer.Stats

	Lateness Lateness `json:"lateness_ms" doc:"Quantiles of how late timers expired."`
}

// Lateness is how late timers were, in milliseconds.
type Lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// Group is a snapshot of a group of devices.
type Group struct {
	Name    string         `json:"name"`
	Match   string         `json:"match" doc:"The pattern that ids of the group match."`
	Members int            `json:"members" doc:"Devices that were ever heard."`
	Silent  int            `json:"silent" doc:"Members that are offline without a goodbye, and not in maintenance."`
	Outage  bool           `json:"outage"`
	States  map[string]int `json:"states" doc:"Its devices by state, as of counted_at."`
}

// Stats is a snapshot of the process.
type Stats struct {
	Devices  int            `json:"devices"`
	States   map[string]int `json:"states" doc:"Devices by state as shown, with unknown and pending."`
	Queued   int            `json:"queued" doc:"Events that wait for the log."`
	Stalled  float64        `json:"stalled_ms" doc:"How long the outbox has been full without an event being stored, during which all listening clocks stand still. 0 if it is not."`
	Waits    uint64         `json:"waits" doc:"Times that a verdict was delayed because the outbox was full."`
	Fails    uint64         `json:"fails" doc:"Times that events could not be appended."`
	Lost     uint64         `json:"lost" doc:"Events that could not be appended when the process stopped."`
	Verdicts uint64         `json:"verdicts" doc:"Deadlines that passed and were judged."`
	Lag      Lag            `json:"lag_ms" doc:"How long after their deadlines, in listening time, the verdicts came since the process started."`
	Flaps    int            `json:"flaps" doc:"Devices that are flapping."`
	Oldest   uint64         `json:"oldest" doc:"Offset of the oldest event that is kept."`
	Latest   uint64         `json:"latest" doc:"Offset of the latest event; less than oldest if there is none."`
	Streams  int64          `json:"streams" doc:"Open streams of events and of the fleet."`
	Beats    uint64         `json:"beats" doc:"Heartbeats accepted by HTTP."`
	Node     string         `json:"node"`
	Version  string         `json:"version"`
	Build    Build          `json:"build"`
	Started  time.Time      `json:"started"`
	AsOf     time.Time      `json:"as_of"`
}

// Lag is how late verdicts were, in milliseconds. The quantiles are upper bounds, at most four times too
// large.
type Lag struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func lagOf(st *liveness.Stats) Lag {
	quantile := func(q float64) float64 {
		return milliseconds(operate.LagQuantile(q, st.Verdicts, st.Lag, st.LagBounds, st.LagMax))
	}
	return Lag{P50: quantile(0.5), P99: quantile(0.99), Max: milliseconds(st.LagMax)}
}

// Build says from what the program was built.
type Build struct {
	Go       string `json:"go" doc:"Version of Go."`
	Platform string `json:"platform"`
	Revision string `json:"revision,omitempty" doc:"Revision of the source code, if known."`
	Time     string `json:"time,omitempty" doc:"Time of the revision."`
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
	Policy PolicyChange `json:"policy" doc:"A field that is left out is taken from what the device announces, or from the default."`
}

type policyList struct {
	Groups  []GroupPolicy `json:"groups" doc:"In the order in which they are matched: a device has that of the first which matches."`
	Default Policy        `json:"default" doc:"What applies where no other rule does."`
}

func (a *API) registerOverview(api huma.API) {
	serve(a, api, operation("overview", "list-groups", "GET /v1/groups", "Groups of devices",
		pictureMeans),
		a.listGroups)
	serve(a, api, operation("overview", "list-policies", "GET /v1/policies", "Policies of groups, and the default",
		"A device's own policy overrides them; /v1/devices/{id} shows the policy of a device and where it is from."), a.listPolicies)
	serve(a, api, operation("overview", "get-stats", "GET /v1/stats", "Counts of devices and events", "Also version, node and timers of the process."), a.stats)
}

func timersOf(st *timer.Stats) Timers {
	quantile := func(q float64) float64 { return milliseconds(st.Lateness.Quantile(q)) }
	return Timers{*st, Lateness{P50: quantile(0.5), P99: quantile(0.99), P999: quantile(0.999)}}
}

func (a *API) listGroups(context.Context, *struct{}) (groupList, error) {
	p := a.fleet.latest(a.registry)
	list := groupList{Others: p.counts[len(p.counts)-1].states(), CountedAt: utc(p.at)}
	groups := a.registry.Groups()
	list.Groups = make([]Group, 0, len(groups))
	for _, g := range groups {
		var counts stateCounts
		if at := slices.Index(p.names, g.Name); at >= 0 { // otherwise it was configured since
			counts = p.counts[at]
		}
		list.Groups = append(list.Groups, Group{
			Name: g.Name, Match: g.Match, Members: g.Members, Silent: g.Silent, Outage: g.Outage, States: counts.states(),
		})
	}
	return list, nil
}

func (a *API) listPolicies(context.Context, *struct{}) (policyList, error) {
	return policyList{mapped(a.registry.Groups(), func(g *liveness.GroupView) GroupPolicy {
		return GroupPolicy{Name: g.Name, Match: g.Match, Policy: changeOf(g.Policy)}
	}), policyOf(a.registry.Operator().Policy(), "default", false)}, nil
}

func (a *API) stats(context.Context, *struct{}) (Stats, error) { return a.statsNow(), nil }

func (a *API) statsNow() Stats {
	st := a.registry.Stats()
	out := Stats{
		Devices: st.Devices, States: statesOf(func(s liveness.State) int { return st.States[s] }), Queued: st.Queued, Stalled: milliseconds(st.StalledFor), Waits: st.Waits,
		Fails: st.Fails, Lost: st.Lost, Verdicts: st.Verdicts, Lag: lagOf(&st), Flaps: st.Flaps, Streams: a.streams.Load(), Node: a.config.Node,
		Version: a.config.Version, Build: buildOf(), Started: utc(a.began), AsOf: utc(a.now()),
	}
	if a.ear != nil {
		out.Beats = a.ear.beats.Load()
	}
	out.Oldest, out.Latest = a.events.Bounds()
	return out
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
