package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/httpapi"
)

const (
	eventsShown = 20           // the latest, unless --limit, --after or --since says otherwise
	eventPrefix = "io.holter." // of each type
)

type eventsCommand struct {
	apiFlags
	jsonFlag

	Follow bool     `short:"f" help:"Go on with what happens, until an interrupt. It survives a restart of the server."`
	After  *uint64  `placeholder:"OFFSET" help:"Begin after this offset; 0 for the oldest that is kept."`
	Since  string   `placeholder:"WHEN" help:"Begin then: a duration such as 10m, or a time such as 2026-01-02T15:04:05Z."`
	Device []string `query:"device" placeholder:"ID" sep:"none" help:"Only events of this device; may be repeated."`
	Type   []string `query:"type" placeholder:"TYPE" help:"Only events of this type, such as device.offline; may be repeated."`
	Group  []string `query:"group" placeholder:"NAME" sep:"none" help:"Only events of this group and of its devices; may be repeated."`
	Source []string `query:"source" placeholder:"NAME" sep:"none" help:"Only events of this source and of devices heard there; may be repeated."`
	Limit  *int     `placeholder:"N" help:"List at most so many. Default: the latest 20; with --after or --since, all."`
}

// Help is the text below the usage line.
func (*eventsCommand) Help() string {
	return `Without --after and --since it lists the latest events, oldest first. With --follow it goes on after them; --limit 0 --follow shows only what is new.

Examples:

    # what happened to a device
    holter events --device site-7/pump-3 --limit 50

    # verdicts as they happen, for a program
    holter events --follow --type device.offline --type device.online --json

Each event has a number in its device, seq: apply it if it is greater than the last.`
}

// Run lists or follows events.
func (c *eventsCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	reader := &eventReader{api: api, filter: queryOf(command), stderr: out.stderr}
	for i, kind := range c.Type {
		reader.filter["type"][i] = strings.TrimPrefix(kind, eventPrefix)
	}
	since, err := c.check(reader.filter)
	if err != nil {
		return usageError{err}
	}
	list := newEventList(out.stdout, c.JSON)
	last, err := c.list(ctx, reader, list, since)
	if err == nil {
		err = list.flush()
	}
	switch {
	case err != nil:
		return err
	case c.Follow:
		return newFollower(api, reader.filter, list, out.stderr).run(ctx, last)
	case list.n == 0 && !c.JSON:
		return say(out.stdout, "no events")
	}
	return nil
}

// check rejects options that contradict each other, and parses --since.
func (c *eventsCommand) check(filter url.Values) (since moment, err error) {
	reject := func(text string) { err = errors.Join(err, errors.New(text)) }
	for name, values := range filter {
		if slices.Contains(values, "") {
			reject(fmt.Sprintf("--%s: it is empty; leave it out for all", name))
		}
	}
	if c.Limit != nil && *c.Limit < 0 {
		reject(fmt.Sprintf("--limit: %d is negative", *c.Limit))
	}
	if c.Limit != nil && *c.Limit == 0 && !c.Follow {
		reject("--limit: 0 lists nothing; it is for --follow")
	}
	if c.After != nil && c.Since != "" {
		reject("give --after or --since, not both")
	}
	if c.Follow && c.Limit != nil && (c.After != nil || c.Since != "") {
		reject("--limit with --follow says how many of the latest come first; with --after or --since leave it out")
	}
	if c.Since != "" {
		var mistake error
		since, mistake = parseMoment(c.Since)
		err = errors.Join(err, mistake)
	}
	return since, err
}

// list lists the stored events, and returns the offset to follow after.
func (c *eventsCommand) list(ctx context.Context, r *eventReader, list *eventList, since moment) (uint64, error) {
	st, err := apiclient.AskStats(ctx, r.api)
	if err != nil {
		return 0, err
	}
	limit, from := noLimit, time.Time{}
	if c.Limit != nil {
		limit = *c.Limit
	}
	switch {
	case c.After != nil:
		return st.Latest, r.forward(ctx, *c.After, st.Latest, limit, from, list.add)
	case c.Since != "":
		from = since(st.AsOf)
		after, err := r.search(ctx, &st, from)
		if err != nil {
			return 0, err
		}
		return st.Latest, r.forward(ctx, after, st.Latest, limit, from, list.add)
	case limit == noLimit:
		limit = eventsShown
	}
	return st.Latest, r.last(ctx, &st, limit, list.add)
}

// moment is a time, which may depend on the server's clock.
type moment func(now time.Time) time.Time

// parseMoment reads a time, or how long ago it was.
func parseMoment(text string) (moment, error) {
	if d, err := duration.Parse(text); err == nil && d >= 0 {
		return func(now time.Time) time.Time { return now.Add(-d) }, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return func(time.Time) time.Time { return t }, nil
		}
	}
	return nil, fmt.Errorf("--since: %q is neither a duration such as 10m or 1d, nor a time such as 2026-01-02T15:04:05Z", text)
}

// event is an event, with its JSON as the API gave it.
type event struct {
	httpapi.Event

	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *event) UnmarshalJSON(raw []byte) error {
	e.raw = append(e.raw[:0], raw...)
	if err := json.Unmarshal(raw, &e.Event); err != nil {
		return err
	}
	if e.Type == "" || e.Data.Offset == 0 {
		return fmt.Errorf("%w: it is no event", apiclient.ErrStranger)
	}
	return nil
}
