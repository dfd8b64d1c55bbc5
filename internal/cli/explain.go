package cli

import (
	"context"
	"errors"
	"io"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
)

type explainDeviceCommand struct {
	apiFlags

	Device string `arg:"" help:"Id of the device."`
}

// Help is the text below the usage line.
func (*explainDeviceCommand) Help() string {
	return `It prints the state, the policy and where it comes from, and the sum of the silence that was heard.

Example:

    holter explain site-7/pump-3 --api http://10.0.0.5:8080`
}

// Run asks the API and prints the answer.
func (c *explainDeviceCommand) Run(ctx context.Context, out output) error {
	if c.Device == "" {
		return usageError{errors.New("the device id is empty")}
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	defer api.Close()
	return explainWith(ctx, api, c.Device, out.stdout)
}

// explainWith asks the API for a device, and for its source, and prints why the device is in its state.
func explainWith(ctx context.Context, api *apiclient.Client, device string, stdout io.Writer) error {
	var d httpapi.Device
	if err := api.Get(ctx, pathOf("devices", device), nil, &d); err != nil {
		return unknownDevice(err, device)
	}
	if d.ID == "" || d.State == "" {
		return apiclient.NotOurs(api)
	}
	_, err := io.WriteString(stdout, explanation(&d, surroundingsOf(ctx, api, &d)))
	return err
}

// surroundingsOf asks for what bears on a device's state beside it. What is not to be had is left out: most of an explanation does
// without.
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
