package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
)

// routesCommand manages routes.
type routesCommand struct {
	List   plainList       `cmd:"" default:"withargs" help:"List the routes."`
	Get    getCommand      `cmd:"" help:"Show a route."`
	Set    routeSetCommand `cmd:"" help:"Create or change a route."`
	Delete changeCommand   `cmd:"" help:"Delete a route; its jobs stay."`
	Pause  changeCommand   `cmd:"" help:"Create no jobs."`
	Resume changeCommand   `cmd:"" help:"Create jobs again."`
}

func routes() list {
	return list{
		columns: []string{"ROUTE", "STATE", "EVENTS,least=16", "GROUP", "DEVICE,least=8", "QUEUE", "ENDPOINT"},
		row: rowOf(func(r *httpapi.Route) []any {
			return []any{
				r.Name, activity(r.Paused), eventsText(r.Types, r.Reasons, r.All), cmp.Or(r.Group, "*"), cmp.Or(r.Device, "*"), r.Queue, r.Endpoint,
			}
		}),
	}
}

// eventsText says which events pass a filter.
func eventsText(types, reasons []string, all bool) string {
	text := cmp.Or(strings.Join(types, " "), "*")
	if len(reasons) > 0 {
		text += " for " + strings.Join(reasons, " or ")
	}
	if all {
		text += ", also suppressed"
	}
	return text
}

type routeSetCommand struct {
	apiFlags `json:"-"`

	Name     string   `json:"-" arg:"" help:"Name of the route."`
	Endpoint *string  `json:"endpoint,omitempty" placeholder:"NAME" help:"Endpoint to deliver to; required for a new route."`
	Queue    *string  `json:"queue,omitempty" placeholder:"NAME" help:"Queue of its jobs. Default: that of the endpoint."`
	Type     []string `json:"types,omitempty" placeholder:"TYPE" help:"Only events of this type, such as device.offline or device.*; may be repeated, or separated by commas."`
	Reason   []string `json:"reasons,omitempty" placeholder:"REASON" help:"Only events with this reason, such as silence; may be repeated."`
	Group    *string  `json:"group,omitempty" placeholder:"PATTERN" help:"Only groups with a matching name."`
	Device   *string  `json:"device,omitempty" placeholder:"PATTERN" help:"Only devices with a matching id, such as site-7/*."`
	All      *bool    `json:"all,omitempty" help:"Also suppressed events: of devices in maintenance, and those that the outage of their group stands for. Pagerduty and opsgenie always get those that may close an incident."`
}

// Help is the text below the usage line.
func (*routeSetCommand) Help() string {
	return `Options that are left out keep their values; a new route takes all events that are not suppressed. An event must match all options.

Examples:

    holter routes set offline --type device.offline --reason silence --endpoint ops
    holter routes set archive --all --endpoint archive --queue slow`
}

// Run creates or changes the route.
func (c *routeSetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return set(ctx, api, out, "routes", c.Name, c, func(*httpapi.RouteSettings) error {
		if c.Endpoint == nil {
			return usageError{errors.New("--endpoint: a new route needs one; \"holter endpoints list\" shows those there are")}
		}
		return nil
	})
}
