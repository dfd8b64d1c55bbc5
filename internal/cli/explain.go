package cli

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
)

type explainDeviceCommand struct {
	apiFlags
	jsonFlag

	Device string `arg:"" help:"Id of the device."`
}

// Help is the text below the usage line.
func (*explainDeviceCommand) Help() string {
	return `It prints the state, the policy with its origin, and how the heard silence adds up. With --json it prints the device as the API gives it.

Example:

    holter explain site-7/pump-3 --api http://10.0.0.5:8080`
}

// Run asks the API and prints the answer.
func (c *explainDeviceCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if c.Device == "" {
		return usageError{errors.New("the device id is empty")}
	}
	return explainWith(ctx, api, c.Device, out.stdout, c.JSON)
}

// explainWith asks the API for a device and its source, and prints why the device is in its state.
func explainWith(ctx context.Context, api *apiclient.Client, device string, stdout io.Writer, asJSON bool) error {
	err := ask(ctx, api, output{stdout: stdout}, asJSON, http.MethodGet, pathOf("devices", device), nil, func(d *httpapi.Device) error {
		if d.ID == "" || d.State == "" {
			return apiclient.ErrStranger
		}
		_, err := io.WriteString(stdout, explanation(d, surroundingsOf(ctx, api, d)))
		return err
	})
	return unknownDevice(err, device)
}

// surroundingsOf asks for what else bears on a device's state. What cannot be had is left out: most of an
// explanation does without.
func surroundingsOf(ctx context.Context, api *apiclient.Client, d *httpapi.Device) surroundings {
	var around surroundings
	if d.Source == "" {
		return around
	}
	var stats httpapi.Stats
	if api.Get(ctx, "/v1/stats", nil, &stats) == nil {
		around.started = stats.Started
	}
	var body struct{ Sources []httpapi.Source }
	if api.Get(ctx, "/v1/sources", nil, &body) == nil {
		for i := range body.Sources {
			if body.Sources[i].Name == d.Source {
				around.source = &body.Sources[i]
			}
		}
	}
	return around
}
