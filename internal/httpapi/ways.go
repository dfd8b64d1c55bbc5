package httpapi

import (
	"context"
	"net"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Way is a way in which a device is connected.
type Way struct {
	Kind    string `json:"kind" enum:"line,mqtt,http" doc:"The protocol."`
	Command string `json:"command" doc:"A command that sends a heartbeat of a device."`
}

type waysInput struct {
	host string
}

// Resolve implements huma.Resolver.
func (i *waysInput) Resolve(ctx huma.Context) []error {
	i.host = hostOf(ctx.Host())
	return nil
}

// hostOf returns the host that a request is for as it may stand in a command; localhost for one that may not.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	odd := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:", r)
	}
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsFunc(host, odd) {
		return "localhost"
	}
	return host
}

type wayList struct {
	Ways []Way `json:"ways"`
}

func (a *API) registerWays(api huma.API) {
	if a.config.Ways == nil {
		return
	}
	serve(a, api, operation("overview", "list-ways", "GET /v1/ways", "How devices are connected here",
		"Commands that send a first heartbeat to this server, with its addresses. A port that is on all addresses of the server has the host that the request was for."),
		func(_ context.Context, in *waysInput) (wayList, error) { return wayList{a.config.Ways(in.host)}, nil })
}
