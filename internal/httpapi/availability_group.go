package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/replay/availability"
	"github.com/holter-iot/holter/liveness"
)

const (
	// historyBatch is how many devices are worked out at a time.
	historyBatch = 1000
	// groupTime bounds the time that a request takes for a group or a replay. It ends before the server gives
	// up the answer.
	groupTime = 50 * time.Second
	// maxLines is the most devices in an answer as CSV.
	maxLines = 100_000
)

// GroupAvailability is the availability of a group in a window.
type GroupAvailability struct {
	Group   string        `json:"group"`
	From    time.Time     `json:"from" doc:"Begin of the window."`
	To      time.Time     `json:"to" doc:"End of the window."`
	Total   *GroupTotal   `json:"total,omitempty" doc:"The sums over all devices of the group; left out with after and with total=false."`
	Devices []GroupDevice `json:"devices"`
	Next    string        `json:"next,omitempty" doc:"Value of after for the next page; left out on the last page, and with sort=worst."`
}

// GroupTotal is the sum over the devices of a group.
type GroupTotal struct {
	Availability

	Devices int        `json:"devices" doc:"How many devices the group has."`
	Known   *time.Time `json:"known_from" doc:"The first instant at which the state of any of them is known."`
}

// GroupDevice is a device of a group.
type GroupDevice struct {
	Availability

	Device string     `json:"device"`
	Known  *time.Time `json:"known_from" doc:"See the availability of a device."`
}

// groupInput asks for the availability of a group.
type groupInput struct {
	WindowQuery
	FormatQuery

	Name string `path:"name" doc:"The group's name, percent-encoded: / is %2F."`

	After string `query:"after" doc:"The id after which to continue: next of the previous page. Left out: from the beginning."`
	Limit int    `query:"limit" minimum:"1" maximum:"100000" doc:"Page size: up to 1,000, and 100 if it is left out; as CSV up to 100,000, which is also what it is if it is left out."`
	Sort  string `query:"sort" enum:"id,worst" default:"id" doc:"worst: the devices with the least share come first, of equal ones those that were offline for longer; there is one page only."`
	Total bool   `query:"total" default:"true" doc:"false: the sums over all devices are left out, which is much faster for the pages of a large group."`

	window availability.Window
	path   string
	query  url.Values
}

// Resolve implements huma.Resolver.
func (i *groupInput) Resolve(ctx huma.Context) (errs []error) {
	u := ctx.URL()
	i.path, i.query = u.EscapedPath(), u.Query()
	i.window, errs = parseWindow(i.query, time.Now())
	i.accept = ctx.Header("Accept")
	most := maxPage
	if i.wantsCSV() {
		most = maxLines
		i.Limit = cmp.Or(i.Limit, maxLines)
	}
	if i.Limit = cmp.Or(i.Limit, 100); i.Limit > most {
		errs = append(errs, &huma.ErrorDetail{Location: "query.limit", Message: "expected number <= 1000; as CSV there may be 100000", Value: i.Limit})
	}
	if i.Sort == "worst" && i.After != "" {
		errs = append(errs, &huma.ErrorDetail{Location: "query.after", Message: "there is one page only with sort=worst; leave out after, or sort", Value: i.After})
	}
	return errs
}

const unknownGroup = "no group has this name; /v1/groups lists them"

func (a *API) hasGroup(name string) bool {
	return slices.ContainsFunc(a.registry.Groups(), func(g liveness.GroupView) bool { return g.Name == name })
}

// groupAvailability serves the availability of a group.
func (a *API) groupAvailability(ctx context.Context, in *groupInput) (formatted, error) {
	if !a.hasGroup(in.Name) {
		return formatted{}, huma.Error404NotFound(unknownGroup)
	}
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	r := groupReport{
		answer: GroupAvailability{Group: in.Name, From: in.window.From.UTC(), To: in.window.To.UTC(), Devices: []GroupDevice{}},
		limit:  in.Limit, worst: in.Sort == "worst", total: in.Total && in.After == "" && !in.wantsCSV(),
	}
	err := a.workOutGroup(ctx, in, &r)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return formatted{}, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(
			"the group has too many devices and events for one answer; ask for a shorter window, or page by page with total=false"), http.Header{"Retry-After": {"60"}})
	case err != nil:
		return formatted{}, a.problem(ctx, err)
	}
	r.finish()
	out := formatted{csv: in.wantsCSV(), body: r.answer}
	if next := r.answer.Next; out.csv && next != "" {
		out.next = in.nextPage(next)
	}
	for _, d := range r.answer.Devices {
		out.rows = append(out.rows, DeviceAvailability{Device: d.Device, From: r.answer.From, To: r.answer.To, Known: d.Known, Availability: d.Availability})
	}
	return out, nil
}

// nextPage returns the address of the next page, with the same window.
func (i *groupInput) nextPage(after string) string {
	i.query.Set("after", after)
	i.query.Set("from", i.window.From.UTC().Format(time.RFC3339Nano))
	i.query.Set("to", i.window.To.UTC().Format(time.RFC3339Nano))
	return i.path + "?" + i.query.Encode()
}

// workOutGroup works out the devices that an answer needs. Only one request at a time does so, because each may
// read very many events.
func (a *API) workOutGroup(ctx context.Context, in *groupInput, r *groupReport) error {
	select {
	case a.adding <- struct{}{}:
		defer func() { <-a.adding }()
	case <-ctx.Done():
		return ctx.Err()
	}
	members := a.members(in.Name)
	r.devices = len(members)
	if !r.total && !r.worst {
		begin, found := slices.BinarySearchFunc(members, in.After, func(m member, id string) int { return strings.Compare(m.id, id) })
		if found {
			begin++
		}
		r.devices = len(members) - begin
		members = members[begin:min(begin+in.Limit, len(members))]
	}
	deaf, err := a.deafness(ctx, in.window)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(members, historyBatch) {
		if err := a.workOut(ctx, in.window, deaf, batch, r); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// member is a device of a group.
type member struct {
	id      string
	present availability.Present
}

// members returns the devices of a group, sorted by id.
func (a *API) members(group string) []member {
	const batch = 512
	var members []member
	var views []liveness.View
	for cursor, more := liveness.Cursor(0), true; more; more = cursor != 0 {
		views, cursor = a.registry.List(views[:0], cursor, batch)
		for i := range views {
			if v := &views[i]; v.Group == group {
				members = append(members, member{v.ID, availability.PresentOf(v)})
			}
		}
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.id, b.id) })
	return members
}

// workOut works out some devices.
func (a *API) workOut(ctx context.Context, w availability.Window, deaf *availability.Deafness, members []member, r *groupReport) error {
	ids, histories := make([]string, len(members)), make([]*availability.History, len(members))
	for i, m := range members {
		ids[i], histories[i] = m.id, availability.New(w, deaf, m.present)
	}
	err := a.config.History.Histories(ctx, ids, func(device int, e *liveness.Event) bool { return histories[device].Take(e) })
	if err != nil {
		return err
	}
	for i, h := range histories {
		report := h.Report()
		r.add(ids[i], &report)
	}
	return nil
}

// groupReport collects the answer for a group.
type groupReport struct {
	answer       GroupAvailability
	limit        int
	worst, total bool // the worst come first; the sums are wanted
	devices      int  // how many the group has from the first of the answer on

	sum   availability.Total
	known time.Time // the earliest
}

// add adds the next device by id.
func (r *groupReport) add(id string, report *availability.Report) {
	r.sum.Add(&report.Figures)
	if !report.Known.IsZero() && (r.known.IsZero() || report.Known.Before(r.known)) {
		r.known = report.Known
	}
	if len(r.answer.Devices) >= r.limit && !r.worst {
		return
	}
	r.answer.Devices = append(r.answer.Devices, GroupDevice{Device: id, Known: knownOf(report), Availability: availabilityOf(&report.Figures)})
	if r.worst && len(r.answer.Devices) >= 2*r.limit {
		r.sortWorst()
	}
}

// sortWorst keeps the worst devices of those so far.
func (r *groupReport) sortWorst() {
	share := func(d *GroupDevice) float64 {
		if d.Share == nil {
			return math.Inf(1)
		}
		return *d.Share
	}
	slices.SortStableFunc(r.answer.Devices, func(a, b GroupDevice) int {
		return cmp.Or(cmp.Compare(share(&a), share(&b)), cmp.Compare(b.Offline, a.Offline))
	})
	r.answer.Devices = r.answer.Devices[:min(r.limit, len(r.answer.Devices))]
}

// finish completes the answer once all devices were added.
func (r *groupReport) finish() {
	if r.worst {
		r.sortWorst()
	} else if n := len(r.answer.Devices); n < r.devices && n > 0 {
		r.answer.Next = r.answer.Devices[n-1].Device
	}
	if r.total {
		r.answer.Total = &GroupTotal{Devices: r.sum.Devices, Availability: totalOf(&r.sum)}
		if !r.known.IsZero() {
			r.answer.Total.Known = new(r.known.UTC())
		}
	}
}
