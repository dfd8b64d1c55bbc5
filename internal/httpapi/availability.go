package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/replay/availability"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// History is what availability is worked out from. All methods are called concurrently. A store is one,
// and so is a [LogEvents], which knows only the deaf times that the sources remember.
type History interface {
	// Histories calls take for the kept events of some devices, each device's from the latest back, until
	// take returns false for it. device is an index of ids. take is called by one goroutine at a time.
	Histories(ctx context.Context, ids []string, take func(device int, e *liveness.Event) (more bool)) error
	// Breaks returns the recorded times in which sources were deaf, as far as they overlap a window.
	Breaks(ctx context.Context, from, to time.Time) ([]judgement.Break, error)
}

// Availability says for how long devices were what, in milliseconds. The times add up to the window, for
// each device.
type Availability struct {
	Share       *float64 `json:"share" doc:"Share of the heard time in which it was up: online, late or sleeping. Deaf time, maintenance and what is unknown count neither for nor against. null if nothing was heard."`
	Online      float64  `json:"online_ms"`
	Late        float64  `json:"late_ms"`
	Sleeping    float64  `json:"sleeping_ms" doc:"It had announced its silence, and counts as up."`
	Offline     float64  `json:"offline_ms" doc:"It was offline for any reason but bye."`
	Bye         float64  `json:"bye_ms" doc:"It was offline and had said goodbye, which counts as not up, and is no outage."`
	Deaf        float64  `json:"deaf_ms" doc:"Its source was deaf."`
	Maintenance float64  `json:"maintenance_ms" doc:"It was in maintenance, whatever its state."`
	Unknown     float64  `json:"unknown_ms" doc:"Its events from then are no longer kept, or there was no such device."`
	Outages     int      `json:"outages" doc:"How often it was offline without a goodbye, also if that had begun before the window or is not over. One that lies in deaf time or maintenance as a whole is not counted."`
	MTBF        *float64 `json:"mtbf_ms" doc:"Mean time between failures: the time up for each outage. null without an outage."`
	MTTR        *float64 `json:"mttr_ms" doc:"Mean time to recover: the time offline for each outage. null without an outage."`
	Longest     float64  `json:"longest_outage_ms" doc:"Time offline of the longest outage."`
}

// DeviceAvailability is the availability of a device in a window.
type DeviceAvailability struct {
	Availability

	Device string     `json:"device"`
	From   time.Time  `json:"from" doc:"Begin of the window."`
	To     time.Time  `json:"to" doc:"End of the window."`
	Known  *time.Time `json:"known_from" doc:"The first instant of the window at which its state is known: the share is of the time since. Later than from if its events from before are no longer kept, or it is younger. null if nothing is known."`
}

// availabilityInput asks for the availability of a device.
type availabilityInput struct {
	WindowQuery
	FormatQuery

	ID string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`

	window availability.Window
}

// Resolve implements huma.Resolver.
func (i *availabilityInput) Resolve(ctx huma.Context) (errs []error) {
	u := ctx.URL()
	i.window, errs = parseWindow(u.Query(), time.Now())
	i.accept = ctx.Header("Accept")
	return errs
}

func (a *API) registerAvailability(api huma.API) {
	if a.config.History == nil {
		return
	}
	const missing = http.StatusNotFound
	serveFormats[DeviceAvailability](a, api, operation("devices", "get-device-availability", "GET /v1/devices/{id}/availability", "For which share of a window a device was online",
		"Only time in which its source was listening counts, and only time without maintenance. A device is offline from its verdict on. "+
			"Of a device that is heard by several sources in turn, the deaf time is that of the source of its latest event. "+csvMeans, missing), a.deviceAvailability)
	serve(a, api, operation("devices", "get-device-timeline", "GET /v1/devices/{id}/timeline", "The states of a device in a window, to be drawn",
		"If there are more intervals than limit, the latest are given, and cut says so: ask again with to = whole_from.", missing), a.deviceTimeline)
	serveFormats[GroupAvailability](a, api, operation("overview", "get-group-availability", "GET /v1/groups/{name}/availability", "The availability of a group's devices, and of the group",
		"Devices are sorted by id, page by page, or the worst come first. They are those that the group has now. Pass on from and to as they were answered, so that all pages have one window. "+csvMeans, missing), a.groupAvailability)
}

// deviceAvailability serves the availability of a device.
func (a *API) deviceAvailability(ctx context.Context, in *availabilityInput) (formatted, error) {
	report, _, err := a.history(ctx, in.ID, in.window, 0)
	if err != nil {
		return formatted{}, err
	}
	d := DeviceAvailability{Device: in.ID, From: report.From.UTC(), To: report.To.UTC(), Known: knownOf(&report)}
	d.Availability = availabilityOf(&report.Figures)
	return formatted{csv: in.wantsCSV(), rows: []DeviceAvailability{d}, body: d}, nil
}

// history works out what a device was. With a limit it has a timeline.
func (a *API) history(ctx context.Context, id string, w availability.Window, limit int) (report availability.Report, lines availability.Timeline, err error) {
	present := availability.Present{}
	view, unknown := a.registry.Device(id)
	if unknown == nil {
		present = availability.PresentOf(&view)
	}
	deaf, err := a.deafness(ctx, w)
	if err != nil {
		return report, lines, a.problem(ctx, err)
	}
	h := availability.New(w, deaf, present)
	if limit > 0 {
		h.KeepTimeline(limit)
	}
	events := 0
	err = a.config.History.Histories(ctx, []string{id}, func(_ int, e *liveness.Event) bool {
		events++
		return h.Take(e)
	})
	switch {
	case err != nil:
		return report, lines, a.problem(ctx, err)
	case unknown != nil && events == 0: // else it was forgotten
		return report, lines, huma.Error404NotFound(unknownDevice)
	}
	if report = h.Report(); limit > 0 {
		lines = h.Timeline()
	}
	return report, lines, nil
}

// deafness returns when sources were deaf: what is recorded, and what they remember themselves, because
// what is recorded lags behind.
func (a *API) deafness(ctx context.Context, w availability.Window) (*availability.Deafness, error) {
	breaks, err := a.config.History.Breaks(ctx, w.From, w.To)
	if err != nil {
		return nil, err
	}
	sources := a.registry.Sources()
	views := mapped(sources, func(s **liveness.Source) liveness.SourceView { return (*s).View() })
	return availability.DeafnessOf(breaks, views, w.To), nil
}

// availabilityOf returns the availability of one device.
func availabilityOf(f *availability.Figures) Availability {
	var t availability.Total
	t.Add(f)
	return totalOf(&t)
}

func totalOf(t *availability.Total) Availability {
	optional := func(v float64, ok bool) *float64 {
		if !ok {
			return nil
		}
		return &v
	}
	return Availability{
		Share: optional(t.Share()), MTBF: optional(t.BetweenFailures()), MTTR: optional(t.ToRecover()), Outages: t.Outages, Longest: milliseconds(t.Longest),
		Online: t.Times[availability.Online], Late: t.Times[availability.Late], Sleeping: t.Times[availability.Sleeping],
		Offline: t.Times[availability.Offline], Bye: t.Times[availability.Bye], Deaf: t.Times[availability.Deaf],
		Maintenance: t.Times[availability.Maintenance], Unknown: t.Times[availability.Unknown],
	}
}

func knownOf(r *availability.Report) *time.Time {
	if r.Known.IsZero() {
		return nil
	}
	return new(r.Known.UTC())
}
