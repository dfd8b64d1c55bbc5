package cli

import (
	"context"

	"github.com/holter-iot/holter/internal/apiclient"
)

// healthCommand asks whether a server is alive.
type healthCommand struct{ apiFlags }

// Help is the text below the usage line.
func (*healthCommand) Help() string {
	return `It asks /healthz, and exits with 0 if that answers. It needs no token. It is for the health check of a container, which has no other program to ask with.

Examples:

    holter health

    # an ear
    holter health --api http://127.0.0.1:8081`
}

// Run asks.
func (*healthCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if err := api.Get(ctx, "/healthz", nil, nil); err != nil {
		return err
	}
	return say(out.stdout, "ok")
}
