package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holter-iot/holter/httpapi"
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
	return asked(&c.apiFlags, func(api *client) error {
		var answer struct{ Endpoints []httpapi.Endpoint }
		if err := api.get(ctx, "/v1/endpoints", nil, &answer); err != nil {
			return err
		}
		g := newGrid(screenOf(out.stdout), column{name: "ENDPOINT"}, column{name: "KIND"}, column{name: "STATE"}, column{name: "DELIVERED", right: true},
			column{name: "FAILED", right: true}, column{name: "TARGET", least: 16, inner: true}, column{name: "NOTE", least: 12, spare: true})
		for _, p := range answer.Endpoints {
			if c.JSON {
				if err := encodeJSON(out.stdout, p); err != nil {
					return err
				}
				continue
			}
			g.add(cell{text: p.Name}, cell{text: p.Kind}, endpointState(p.State), cell{text: strconv.FormatUint(p.Delivered, 10)},
				cell{text: strconv.FormatUint(p.Failed, 10)}, cell{text: p.Target}, cell{text: p.Note})
		}
		return g.flush(out.stdout)
	})
}

// endpointState says what the state of an endpoint means for its deliveries.
func endpointState(state string) cell {
	switch state {
	case "closed":
		return cell{"at work", green}
	case "open":
		return cell{"failing", red}
	case "half-open":
		return cell{"tried", yellow}
	case "disabled":
		return cell{"disabled", yellow}
	}
	return cell{state, red}
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
	return asked(&c.apiFlags, func(api *client) error {
		var answer struct{ Endpoints []httpapi.Endpoint }
		if err := api.get(ctx, "/v1/endpoints", nil, &answer); err != nil {
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
		if err := api.ask(ctx, http.MethodPut, pathOf("endpoints", c.Name), body, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "endpoint %s is set\n", printable(c.Name))
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
