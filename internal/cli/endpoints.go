package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// endpointsCommand manages endpoints.
type endpointsCommand struct {
	List     plainList           `cmd:"" default:"withargs" help:"List the endpoints."`
	Get      getCommand          `cmd:"" help:"Show an endpoint."`
	Set      endpointSetCommand  `cmd:"" help:"Create or change an endpoint."`
	Test     endpointTestCommand `cmd:"" help:"Send a test message to an endpoint."`
	Delete   changeCommand       `cmd:"" help:"Delete an endpoint."`
	Enable   changeCommand       `cmd:"" help:"Deliver to it again."`
	Disable  changeCommand       `cmd:"" help:"Deliver nothing to it: its jobs wait, and events create none. To miss nothing, pause the queue instead."`
	RetryNow changeCommand       `cmd:"" help:"Retry its waiting jobs at once."`
}

func endpoints() list {
	return list{
		columns: []string{"ENDPOINT", "KIND", "STATE", "DELIVERED", "FAILED", "TARGET,least=16,inner", "NOTE,least=12,spare"},
		row: rowOf(func(e *httpapi.Endpoint) []any {
			return []any{e.Name, e.Kind, endpointState(e.State), e.Delivered, e.Failed, e.Target, e.Note}
		}),
	}
}

// endpointState shows what the state of an endpoint means for its deliveries.
func endpointState(state string) terminal.Cell {
	means := map[string]string{"closed": "active", "open": "failing", "half-open": "recovering"}
	cell := painted(cmp.Or(means[state], state))
	if cell.Paint == terminal.Faint {
		cell.Paint = terminal.Red
	}
	return cell
}

type endpointSetCommand struct {
	apiFlags `json:"-"`

	Name     string    `json:"-" arg:"" help:"Name of the endpoint."`
	Kind     *string   `json:"kind,omitempty" placeholder:"KIND" help:"slack, teams, discord, telegram, ntfy, email, pagerduty, opsgenie, webhook, mqtt, nats, kafka, log or command. Default: webhook."`
	Target   *string   `json:"target,omitempty" placeholder:"TARGET" help:"The URL of a webhook, a server or a broker, the name of a log file, or a program."`
	Settings *jsonText `json:"settings,omitempty" placeholder:"JSON" help:"Settings of its kind, as a JSON object."`
	Queue    *string   `json:"queue,omitempty" placeholder:"NAME" help:"Queue of its jobs that name none. Default: default."`
}

// Help is the text below the usage line.
func (*endpointSetCommand) Help() string {
	return `Options that are left out keep their values. Targets and settings (one JSON object) of each kind:

    slack      https://hooks.slack.com/services/...   its address is a secret, as of the next three
    teams      the URL of a workflow
    discord    https://discord.com/api/webhooks/...
    ntfy       https://ntfy.sh/TOPIC                  token, or username and password
    telegram   none, or a server of your own          token, chat
    email      smtp://HOST:587, smtps://HOST:465      from, to, username, password, ca, plaintext
    pagerduty  none, or that of the EU                routing_key
    opsgenie   none, or that of the EU or of Jira     api_key

    webhook  https://HOST/PATH                      secret, previous_secret, headers, template, content_type, console
    mqtt     tcp://HOST:1883, tls://HOST:8883        topic, qos, retain, username, password, client_id
    nats     nats://HOST:4222, tls://HOST:4222      subject, username, password, token, seed, credentials, ca
    kafka    kafka://HOST:9092,HOST:9092/TOPIC      username, password, sasl, tls, ca
    log      name of a file                         max_bytes, files
    command  path of a program                      args, shell, dir

All have timeout_ms and batch; those of the first list also title and text (templates), console (its address, for links) and rate (messages per second).

A secret written as "(hidden)", as lists show it, keeps its value unless kind or the target's host changes. Written as credential:endpoint-NAME it is read from the file endpoint-NAME in $CREDENTIALS_DIRECTORY of the server.

Endpoints in private networks, and commands, must be allowed where the server is started: HOLTER_DELIVERY_ALLOW_PRIVATE=10.0.0.0/8,127.0.0.1 and HOLTER_DELIVERY_ALLOW_COMMANDS=true.

Examples:

    holter endpoints set team --kind slack --target https://hooks.slack.com/services/T000/B000/XXXX
    holter endpoints set oncall --kind pagerduty --settings '{"routing_key":"credential:endpoint-pagerduty"}'
    holter endpoints set ops --target https://ops.example/holter --settings '{"secret":"whsec_..."}'
    holter endpoints set archive --kind log --target events.jsonl
    holter endpoints set stream --kind kafka --target kafka://kafka.example/fleet --settings '{"tls":true,"batch":100}'`
}

// Run creates or changes the endpoint.
func (c *endpointSetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if err := c.Settings.check(`{"timeout_ms":5000}`); err != nil {
		return err
	}
	return set(ctx, api, out, "endpoints", c.Name, c, func(s *httpapi.EndpointSettings) error {
		s.Kind = "webhook"
		return nil
	})
}

// endpointTestCommand sends a test message.
type endpointTestCommand struct {
	apiFlags
	jsonFlag

	Name string `arg:"" help:"Its name."`
}

// Help is the text below the usage line.
func (*endpointTestCommand) Help() string {
	return `It is sent at once, also to a disabled endpoint, and what the service answers is shown. For pagerduty and opsgenie an incident is opened and closed again.

Example:

    holter endpoints test team`
}

// Run sends the message.
func (c *endpointTestCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if c.Name == "" {
		return usageError{errors.New("the name of the endpoint is empty")}
	}
	return ask(ctx, api, out, c.JSON, http.MethodPost, pathOf("endpoints", c.Name)+"/test", nil, func(t *httpapi.EndpointTest) error {
		answer := terminal.Printable(strings.TrimSpace(t.Response))
		if answer != "" {
			answer = ": " + answer
		}
		if !t.Delivered {
			return fmt.Errorf("endpoint %s was not reached: %s%s", terminal.Printable(c.Name), terminal.Printable(t.Error), answer)
		}
		status := ""
		if t.Status != 0 {
			status = fmt.Sprintf(" with status %d", t.Status)
		}
		return say(out.stdout, "endpoint %s took the message%s%s", terminal.Printable(c.Name), status, answer)
	})
}
