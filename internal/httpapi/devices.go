package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

const (
	// maxScan bounds the events, or what is learned of devices, that one request with a filter examines.
	maxScan = 10_000
	maxPage = 1000
)

type devicesInput struct {
	After       string   `query:"after" doc:"Where to continue: next of the previous page. Left out: from the beginning."`
	Limit       int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
	State       []string `query:"state,explode" doc:"Only devices in one of these states, separated by commas or given again."`
	Group       []string `query:"group,explode" doc:"Only devices of this group; may be given again for others."`
	Source      []string `query:"source,explode" doc:"Only devices whose last heartbeat came through this source; may be given again for others."`
	Prefix      string   `query:"prefix" maxLength:"128" doc:"Only devices whose id has this prefix."`
	SeenBefore  string   `query:"seen_before" doc:"Only devices that were last heard before an instant (RFC 3339), a date, which is its begin in UTC, or longer ago than a duration such as 10m."`
	SeenAfter   string   `query:"seen_after" doc:"Only devices that were heard after then, written in the same way."`
	Connected   string   `query:"connected" doc:"true: only devices with a connection; false: only those without."`
	Maintenance string   `query:"maintenance" doc:"true: only devices in maintenance; false: only those that are not."`
	Flapping    string   `query:"flapping" doc:"true: only devices that are flapping; false: only those that are not."`
	Number      string   `query:"number" doc:"Only the device with this number."`
	Sort        string   `query:"sort" enum:"id,last_seen,since" doc:"By what to sort; devices that were never heard come first by last_seen. Left out: a stable order that is none of these, and costs least."`
	Order       string   `query:"order" enum:"asc,desc" doc:"With sort: ascending, which is the default, or descending."`

	filter liveness.Filter
}

// Resolve implements huma.Resolver.
func (i *devicesInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	var errs []error
	i.filter, errs = parseDeviceFilter(u.Query(), time.Now())
	if i.Order != "" && i.Sort == "" {
		errs = append(errs, &huma.ErrorDetail{Location: "query.order", Message: "expected together with sort", Value: i.Order})
	}
	return errs
}

type devicePage struct {
	Devices []Device `json:"devices"`
	Next    string   `json:"next,omitempty" doc:"Value of after for the next page; left out on the last page."`
}

type deviceInput struct {
	ID string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`
}

type deviceEventsInput struct {
	ID    string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`
	After uint64 `query:"after" default:"0" doc:"Seq after which to read: next of the previous page. 0: from the oldest event that is kept."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
}

type deviceEventPage struct {
	Events []Event `json:"events" doc:"Ordered by seq."`
	Next   uint64  `json:"next" doc:"Value of after for the next request; the same as after if there is nothing new."`
	Missed bool    `json:"missed" doc:"Events directly after the given seq are no longer kept."`
}

func (a *API) registerDevices(api huma.API) {
	const missing = http.StatusNotFound
	serve(a, api, operation("devices", "list-devices", "GET /v1/devices", "Devices, page by page",
		"A device has to match all filters. Continue while there is a next. A device that exists all the time is on exactly one page; with sort, if "+
			"that by which is sorted does not change meanwhile. A page with a filter or sort examines all devices."), a.devices)
	op := api.OpenAPI().Paths["/v1/devices"].Get
	listOf(op, "state", deviceStates())
	for _, p := range op.Parameters {
		switch p.Name {
		case "connected", "maintenance", "flapping":
			p.Schema = &huma.Schema{Type: huma.TypeBoolean}
		case "number":
			p.Schema = &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(math.MaxUint32))}
		}
	}
	serve(a, api, operation("devices", "get-device", "GET /v1/devices/{id}", "A device, and everything that its state is derived from",
		"With the parts of its heard silence, which lists leave out.", missing), a.device)
	serve(a, api, operation("devices", "explain-device", "GET /v1/devices/{id}/explain", "Why a device is in its state: the same as the device itself",
		"The command holter explain shows it as text.", missing), a.device)
	events := operation("devices", "list-device-events", "GET /v1/devices/{id}/events", "Events of a device after a seq",
		"By seq, which has no gaps and continues if the device is forgotten and heard again. missed says that some are no longer kept.", missing)
	events.Tags = append(events.Tags, "events")
	serve(a, api, events, a.deviceEvents)
}

func (a *API) devices(_ context.Context, in *devicesInput) (page devicePage, err error) {
	var views []liveness.View
	if in.Sort == "" {
		cursor, err := a.decodeCursor(in.After)
		if err != nil {
			return page, err
		}
		views, cursor = a.registry.Pick(nil, cursor, in.Limit, &in.filter)
		page.Next = a.encodeCursor(cursor)
	} else {
		q := liveness.Query{Filter: in.filter, By: orderOf(in.Sort), Descending: in.Order == "desc", Limit: in.Limit}
		if q.After, err = a.decodePlace(in.After, &q); err != nil {
			return page, err
		}
		var next *liveness.Place
		views, next = a.registry.Select(q)
		page.Next = a.encodePlace(next, &q)
	}
	now := a.now()
	page.Devices = mapped(views, func(v *liveness.View) Device { return deviceOf(v, now) })
	return page, nil
}

func orderOf(sort string) liveness.Order {
	switch sort {
	case "last_seen":
		return liveness.ByLastSeen
	case "since":
		return liveness.BySince
	}
	return liveness.ByID
}

func (a *API) device(_ context.Context, in *deviceInput) (Device, error) {
	view, err := a.registry.Device(in.ID)
	if err != nil {
		return Device{}, huma.Error404NotFound(unknownDevice)
	}
	d := deviceOf(&view, a.now())
	d.Listening = listeningOf(&view)
	if l, err := a.registry.Learned(in.ID); err == nil { // else it was forgotten meanwhile
		learned := learnedOf(&l)
		learned.ID, learned.Group = "", ""
		d.Learned = &learned
	}
	return d, nil
}

func (a *API) deviceEvents(ctx context.Context, in *deviceEventsInput) (deviceEventPage, error) {
	known := a.registry.Operator().Known(in.ID) // asked first, because the device may be created or forgotten meanwhile
	events, err := a.events.DeviceEvents(ctx, in.ID, in.After, in.Limit)
	if err != nil && !isUnknown(err) {
		return deviceEventPage{}, a.unreadable(ctx, err)
	}
	if len(events) == 0 && !known {
		return deviceEventPage{}, huma.Error404NotFound(unknownDevice)
	}
	page := deviceEventPage{Events: mapped(events, a.eventOf), Next: in.After}
	if n := len(events); n > 0 {
		page.Next, page.Missed = events[n-1].Seq, events[0].Seq != in.After+1
	}
	return page, nil
}
