package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// Source is a picture of a source of heartbeats.
type Source struct {
	Name      string  `json:"name"`
	Listened  float64 `json:"listened_ms" doc:"What its listening clock reads."`
	Behind    float64 `json:"behind_ms" doc:"How far the clock is behind, because input waits to be read."`
	Deaf      []Deaf  `json:"deaf" doc:"The latest intervals in which it heard nothing."`
	DeafTotal float64 `json:"deaf_total_ms"`
	Timers    Timers  `json:"timers"`
}

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
	Name    string `json:"name"`
	Match   string `json:"match" doc:"The pattern that ids of the group match."`
	Members int    `json:"members"`
	Silent  int    `json:"silent" doc:"Of them, offline without having said goodbye."`
	Outage  bool   `json:"outage"`
}

// Stats is a picture of the whole.
type Stats struct {
	Devices int            `json:"devices"`
	States  map[string]int `json:"states" doc:"Devices by state as stored: one that is unknown is counted as what it was."`
	Queued  int            `json:"queued" doc:"Events that wait for the log."`
	Waits   uint64         `json:"waits" doc:"Times that somebody was held up because too many events waited."`
	Fails   uint64         `json:"fails" doc:"Times that events could not be appended."`
	Lost    uint64         `json:"lost" doc:"Events that could not be appended when the process stopped."`
	Flaps   int            `json:"flaps" doc:"Devices that are flapping."`
	Oldest  uint64         `json:"oldest" doc:"Offset of the oldest event that is kept."`
	Latest  uint64         `json:"latest" doc:"Offset of the latest event; less than oldest if there is none."`
	Streams int64          `json:"streams" doc:"Open streams of events."`
	Node    string         `json:"node"`
	Version string         `json:"version"`
	AsOf    time.Time      `json:"as_of"`
}

type sourcesOutput struct {
	Body struct {
		Sources []Source `json:"sources"`
	}
}

type groupsOutput struct {
	Body struct {
		Groups []Group `json:"groups" doc:"In the order in which they are looked through."`
	}
}

type statsOutput struct{ Body Stats }

func (a *API) registerOverview(api huma.API) {
	operation := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"overview"}}
	}
	huma.Register(api, operation("list-sources", "/v1/sources", "Sources of heartbeats and their listening clocks"), a.sources)
	huma.Register(api, operation("list-groups", "/v1/groups", "Groups of devices"), a.groups)
	huma.Register(api, operation("get-stats", "/v1/stats", "Counts of devices and events"), a.stats)
}

func (a *API) sources(context.Context, *struct{}) (*sourcesOutput, error) {
	out := &sourcesOutput{}
	out.Body.Sources = []Source{}
	for _, s := range a.registry.Sources() {
		v := s.View()
		out.Body.Sources = append(out.Body.Sources, Source{
			Name: v.Name, Listened: milliseconds(v.Listened), Behind: milliseconds(v.Behind),
			Deaf: deafOf(v.Deaf), DeafTotal: milliseconds(v.DeafTotal), Timers: timersOf(&v.Timers),
		})
	}
	return out, nil
}

func timersOf(st *timer.Stats) Timers {
	quantile := func(q float64) float64 { return milliseconds(st.Lateness.Quantile(q)) }
	return Timers{
		Armed: st.Armed, Hints: st.Hints, Dead: st.Dead, Slots: st.Slots, Retired: st.Retired, Sweeps: st.Sweeps, Fired: st.Fired,
		Rejected: st.Rejected, Panics: st.Panics, Queued: st.Queued, Spilled: st.Spilled, Refused: st.Refused,
		Lateness: Lateness{P50: quantile(0.5), P99: quantile(0.99), P999: quantile(0.999)},
	}
}

func (a *API) groups(context.Context, *struct{}) (*groupsOutput, error) {
	out := &groupsOutput{}
	out.Body.Groups = []Group{}
	for _, g := range a.registry.Groups() {
		out.Body.Groups = append(out.Body.Groups, Group{
			Name: g.Name, Match: g.Match, Members: g.Members, Silent: g.Silent, Outage: g.Outage,
		})
	}
	return out, nil
}

func (a *API) stats(context.Context, *struct{}) (*statsOutput, error) {
	st := a.registry.Stats()
	out := &statsOutput{Body: Stats{
		Devices: st.Devices, States: make(map[string]int), Queued: st.Queued, Waits: st.Waits, Fails: st.Fails, Lost: st.Lost, Flaps: st.Flaps,
		Streams: a.streams.Load(), Node: a.config.Node, Version: a.config.Version, AsOf: utc(a.now()),
	}}
	for state, n := range st.States {
		if state != liveness.Unknown { // never stored
			out.Body.States[state.String()] = n
		}
	}
	out.Body.Oldest, out.Body.Latest = a.log.Bounds()
	return out, nil
}
