package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// endpointsCommand looks after endpoints.
type endpointsCommand struct {
	List    endpointsListCommand   `cmd:"" help:"List the endpoints, with how they do."`
	Set     endpointSetCommand     `cmd:"" help:"Make or change an endpoint."`
	Delete  endpointDeleteCommand  `cmd:"" help:"Delete an endpoint."`
	Enable  endpointEnableCommand  `cmd:"" help:"Deliver to it again."`
	Disable endpointDisableCommand `cmd:"" help:"Deliver nothing to it: its jobs wait, and events make none; to miss nothing, pause the queue instead."`
	Hasten  endpointHastenCommand  `cmd:"" help:"Try its jobs again at once."`
}

type endpointsListCommand struct {
	apiFlags

	JSON bool `name:"json" help:"One JSON object a line."`
}

// Run lists the endpoints.
func (c *endpointsListCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Endpoints []httpapi.Endpoint }
		if err := api.Get(ctx, "/v1/endpoints", nil, &answer); err != nil {
			return err
		}
		g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "ENDPOINT"}, terminal.Column{Name: "KIND"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "DELIVERED", Right: true},
			terminal.Column{Name: "FAILED", Right: true}, terminal.Column{Name: "TARGET", Least: 16, Inner: true}, terminal.Column{Name: "NOTE", Least: 12, Spare: true})
		for _, p := range answer.Endpoints {
			if c.JSON {
				if err := terminal.EncodeJSON(out.stdout, p); err != nil {
					return err
				}
				continue
			}
			g.Add(terminal.Cell{Text: p.Name}, terminal.Cell{Text: p.Kind}, endpointState(p.State), terminal.Cell{Text: strconv.FormatUint(p.Delivered, 10)},
				terminal.Cell{Text: strconv.FormatUint(p.Failed, 10)}, terminal.Cell{Text: p.Target}, terminal.Cell{Text: p.Note})
		}
		return g.Flush(out.stdout)
	})
}

// endpointState says what the state of an endpoint means for its deliveries.
func endpointState(state string) terminal.Cell {
	switch state {
	case "closed":
		return terminal.Cell{Text: "at work", Paint: terminal.Green}
	case "open":
		return terminal.Cell{Text: "failing", Paint: terminal.Red}
	case "half-open":
		return terminal.Cell{Text: "tried", Paint: terminal.Yellow}
	case "disabled":
		return terminal.Cell{Text: "disabled", Paint: terminal.Yellow}
	}
	return terminal.Cell{Text: state, Paint: terminal.Red}
}

type endpointSetCommand struct {
	apiFlags

	Name     string  `arg:"" help:"Name of the endpoint."`
	Kind     *string `placeholder:"KIND" help:"webhook, mqtt, nats, kafka, log or command. Default: webhook."`
	Target   *string `placeholder:"TARGET" help:"Where it is: the URL of a webhook or of an MQTT broker, the name of a log file, a program."`
	Settings *string `placeholder:"JSON" help:"Settings of its kind, as a JSON object."`
}

// Help is the text below the usage line.
func (*endpointSetCommand) Help() string {
	return `What is left out stays as it is. Targets and settings (one JSON object) of each kind:

    webhook  https://HOST/PATH                      secret, previous_secret, headers
    mqtt     tcp://HOST:1883, tls://HOST:8883        topic, qos, retain, username, password, client_id
    nats     nats://HOST:4222, tls://HOST:4222      subject, username, password, token, seed, credentials, ca
    kafka    kafka://HOST:9092,HOST:9092/TOPIC      username, password, sasl, tls, ca
    log      name of a file                         max_bytes, files
    command  path of a program                      args, shell, dir

All have timeout_ms and batch. A secret that is shown as "(hidden)" stays what it is if it is written so, unless kind or the target's host changes.

Endpoints in private networks, and commands, have to be allowed where the server is started: HOLTER_DELIVERY_ALLOW_PRIVATE=10.0.0.0/8,127.0.0.1 and HOLTER_DELIVERY_ALLOW_COMMANDS=true.

Examples:

    holter endpoints set ops --target https://ops.example/holter --settings '{"secret":"whsec_..."}'
    holter endpoints set archive --kind log --target events.jsonl
    holter endpoints set stream --kind kafka --target kafka://kafka.example/fleet --settings '{"tls":true,"batch":100}'`
}

// Run makes or changes the endpoint.
func (c *endpointSetCommand) Run(ctx context.Context, out output) error {
	if c.Settings != nil && !json.Valid([]byte(*c.Settings)) {
		return orUsage("--settings: this is not JSON; write an object such as {\"timeout_ms\":5000}")
	}
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Endpoints []httpapi.Endpoint }
		if err := api.Get(ctx, "/v1/endpoints", nil, &answer); err != nil {
			return err
		}
		body := httpapi.EndpointSettings{Kind: "webhook"}
		for _, p := range answer.Endpoints {
			if p.Name == c.Name {
				body = p.EndpointSettings
			}
		}
		set(&body.Kind, c.Kind)
		set(&body.Target, c.Target)
		if c.Settings != nil {
			body.Settings = json.RawMessage(*c.Settings)
		}
		if err := api.Ask(ctx, http.MethodPut, pathOf("endpoints", c.Name), body, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "endpoint %s is set\n", terminal.Printable(c.Name))
		return err
	})
}

type (
	endpointDeleteCommand  named
	endpointEnableCommand  named
	endpointDisableCommand named
	endpointHastenCommand  named
)

// Run deletes the endpoint.
func (c *endpointDeleteCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "endpoint", "", "is deleted")
}

// Run enables the endpoint.
func (c *endpointEnableCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "endpoint", "/disabled", "is enabled")
}

// Run disables the endpoint.
func (c *endpointDisableCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodPut, "endpoint", "/disabled", "is disabled")
}

// Run lets its jobs be tried again.
func (c *endpointHastenCommand) Run(ctx context.Context, out output) error {
	return counted(ctx, out, &c.apiFlags, http.MethodPost, pathOf("endpoints", c.Name)+"/hasten", nil, "wait no longer")
}
