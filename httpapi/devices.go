package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

// maxScan bounds the devices that a request with a filter looks at.
const maxScan = 10_000

type devicesInput struct {
	After  string   `query:"after" doc:"Where to go on: next of the page before. Left out: from the beginning."`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most devices of the page."`
	State  []string `query:"state" enum:"never_seen,online,late,sleeping,offline,unknown" doc:"Only devices in one of these states."`
	Prefix string   `query:"prefix" maxLength:"128" doc:"Only devices whose id begins so."`
}

func (i *devicesInput) matches(v *liveness.View) bool {
	return strings.HasPrefix(v.ID, i.Prefix) && (len(i.State) == 0 || slices.Contains(i.State, v.State.String()))
}

type devicesOutput struct {
	Body struct {
		Devices []Device `json:"devices"`
		Next    string   `json:"next,omitempty" doc:"What to pass as after for the next page; left out at the end."`
	}
}

type deviceInput struct {
	ID string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`
}

type deviceOutput struct{ Body Device }

func (a *API) registerDevices(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-devices", Method: http.MethodGet, Path: "/v1/devices", Tags: []string{"devices"},
		Summary: "Devices, page by page",
		Description: "In no particular but a stable order. A page with a filter may be short or empty although more follow: " +
			"go on while there is a next.",
	}, a.devices)
	huma.Register(api, huma.Operation{
		OperationID: "get-device", Method: http.MethodGet, Path: "/v1/devices/{id}", Tags: []string{"devices"},
		Summary: "A device, and all that its state follows from", Errors: []int{http.StatusNotFound},
	}, a.device)
}

func (a *API) devices(_ context.Context, in *devicesInput) (*devicesOutput, error) {
	cursor, err := a.decodeCursor(in.After)
	if err != nil {
		return nil, err
	}
	out := &devicesOutput{}
	out.Body.Devices = make([]Device, 0, in.Limit)
	var views []liveness.View
	for scanned := 0; scanned < maxScan; {
		views, cursor = a.registry.List(views[:0], cursor, in.Limit-len(out.Body.Devices))
		now := a.now()
		for i := range views {
			if in.matches(&views[i]) {
				out.Body.Devices = append(out.Body.Devices, deviceOf(&views[i], now))
			}
		}
		scanned += len(views)
		if cursor == 0 || len(out.Body.Devices) == in.Limit {
			break
		}
	}
	out.Body.Next = a.encodeCursor(cursor)
	return out, nil
}

func (a *API) device(_ context.Context, in *deviceInput) (*deviceOutput, error) {
	view, err := a.registry.Device(in.ID)
	if err != nil {
		return nil, huma.Error404NotFound("no device with this id was ever seen or configured; /v1/devices?prefix= finds ids by how they begin")
	}
	out := &deviceOutput{Body: deviceOf(&view, a.now())}
	out.Body.Listening = listeningOf(&view)
	return out, nil
}
