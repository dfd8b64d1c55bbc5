package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// routesCommand looks after routes.
type routesCommand struct {
	List   routesListCommand  `cmd:"" help:"List the routes."`
	Set    routeSetCommand    `cmd:"" help:"Make or change a route."`
	Delete routeDeleteCommand `cmd:"" help:"Delete a route; its jobs stay."`
	Pause  routePauseCommand  `cmd:"" help:"Let it make no jobs."`
	Resume routeResumeCommand `cmd:"" help:"Let it make jobs again."`
}

type routesListCommand struct {
	apiFlags

	JSON bool `name:"json" help:"One JSON object a line."`
}

func routesOf(ctx context.Context, api *apiclient.Client) ([]httpapi.Route, error) {
	var answer struct{ Routes []httpapi.Route }
	err := api.Get(ctx, "/v1/routes", nil, &answer)
	return answer.Routes, err
}

// Run lists the routes.
func (c *routesListCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		routes, err := routesOf(ctx, api)
		if err != nil {
			return err
		}
		g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "ROUTE"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "EVENTS", Least: 16}, terminal.Column{Name: "GROUP"},
			terminal.Column{Name: "DEVICE", Least: 8}, terminal.Column{Name: "QUEUE"}, terminal.Column{Name: "ENDPOINT"})
		for _, r := range routes {
			if c.JSON {
				if err := terminal.EncodeJSON(out.stdout, r); err != nil {
					return err
				}
				continue
			}
			state := terminal.Cell{Text: "at work", Paint: terminal.Green}
			if r.Paused {
				state = terminal.Cell{Text: "paused", Paint: terminal.Yellow}
			}
			g.Add(terminal.Cell{Text: r.Name}, state, terminal.Cell{Text: routeEvents(&r)}, terminal.Cell{Text: cmp.Or(r.Group, "*")}, terminal.Cell{Text: cmp.Or(r.Device, "*")},
				terminal.Cell{Text: r.Queue}, terminal.Cell{Text: r.Endpoint})
		}
		return g.Flush(out.stdout)
	})
}

// routeEvents says which events pass a route.
func routeEvents(r *httpapi.Route) string {
	text := cmp.Or(strings.Join(r.Types, " "), "*")
	if len(r.Reasons) > 0 {
		text += " for " + strings.Join(r.Reasons, " or ")
	}
	if r.All {
		text += ", alarming or not"
	}
	return text
}

type routeSetCommand struct {
	apiFlags

	Name     string   `arg:"" help:"Name of the route."`
	Endpoint *string  `placeholder:"NAME" help:"Where to deliver to; needed for a new route."`
	Queue    *string  `placeholder:"NAME" help:"Through which queue. Default: default."`
	Type     []string `placeholder:"TYPE" help:"Only events of this type, such as device.offline or device.*; may be repeated, or separated by commas."`
	Reason   []string `placeholder:"REASON" help:"Only events with this reason, such as silence; may be repeated."`
	Group    *string  `placeholder:"PATTERN" help:"Only of groups whose name fits."`
	Device   *string  `placeholder:"PATTERN" help:"Only of devices whose id fits, such as site-7/*."`
	All      *bool    `help:"Also events that nobody is to be alarmed by: of devices in maintenance, and those that the outage of their group stands for."`
}

// Help is the text below the usage line.
func (*routeSetCommand) Help() string {
	return `What is left out stays as it is; a new route takes all events that are to alarm somebody. An event has to pass all that is given.

Examples:

    holter routes set offline --type device.offline --reason silence --endpoint ops
    holter routes set archive --all --endpoint archive --queue slow`
}

// Run makes or changes the route.
func (c *routeSetCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		routes, err := routesOf(ctx, api)
		if err != nil {
			return err
		}
		var body httpapi.RouteSettings
		if i := slices.IndexFunc(routes, func(r httpapi.Route) bool { return r.Name == c.Name }); i >= 0 {
			body = routes[i].RouteSettings
		} else if c.Endpoint == nil {
			return orUsage("--endpoint: say where the new route leads to; \"holter endpoints list\" shows what there is")
		}
		set(&body.Endpoint, c.Endpoint)
		set(&body.Queue, c.Queue)
		set(&body.Group, c.Group)
		set(&body.Device, c.Device)
		set(&body.All, c.All)
		if c.Type != nil {
			body.Types = c.Type
		}
		if c.Reason != nil {
			body.Reasons = c.Reason
		}
		if err := api.Ask(ctx, http.MethodPut, pathOf("routes", c.Name), body, nil); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out.stdout, "route %s is set\n", terminal.Printable(c.Name))
		return err
	})
}

type (
	routeDeleteCommand named
	routePauseCommand  named
	routeResumeCommand named
)

// Run deletes the route.
func (c *routeDeleteCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "route", "", "is deleted")
}

// Run pauses the route.
func (c *routePauseCommand) Run(ctx context.Context, out output) error {
	return pauseRoute(ctx, out, &c.apiFlags, c.Name, true)
}

// Run resumes the route.
func (c *routeResumeCommand) Run(ctx context.Context, out output) error {
	return pauseRoute(ctx, out, &c.apiFlags, c.Name, false)
}

func pauseRoute(ctx context.Context, out output, flags *apiFlags, name string, paused bool) error {
	return asked(flags, func(api *apiclient.Client) error {
		routes, err := routesOf(ctx, api)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(routes, func(r httpapi.Route) bool { return r.Name == name })
		if i < 0 {
			return fmt.Errorf("unknown route %q; \"holter routes list\" shows what there is", name)
		}
		body, done := routes[i].RouteSettings, "is at work"
		if body.Paused = paused; paused {
			done = "is paused"
		}
		if err := api.Ask(ctx, http.MethodPut, pathOf("routes", name), body, nil); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out.stdout, "route %s %s\n", terminal.Printable(name), done)
		return err
	})
}
