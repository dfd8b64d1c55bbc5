package cli

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
)

// A command has one of these methods Run, by what it needs.
type (
	simple interface {
		Run(context.Context, output) error
	}
	flagged interface {
		Run(context.Context, *kong.Context, output) error
	}
	client interface {
		ProvideClient() (*apiclient.Client, error)
		Run(context.Context, *apiclient.Client, output) error
	}
	flaggedClient interface {
		ProvideClient() (*apiclient.Client, error)
		Run(context.Context, *kong.Context, *apiclient.Client, output) error
	}
)

// execute runs the command of a line that was parsed.
func execute(ctx context.Context, line *kong.Context, out output) error {
	switch c := line.Selected().Target.Addr().Interface().(type) {
	case simple:
		return c.Run(ctx, out)
	case flagged:
		return c.Run(ctx, line, out)
	case client:
		api, err := c.ProvideClient()
		if err != nil {
			return err
		}
		return c.Run(ctx, api, out)
	case flaggedClient:
		api, err := c.ProvideClient()
		if err != nil {
			return err
		}
		return c.Run(ctx, line, api, out)
	default:
		return fmt.Errorf("%T is not a command", c)
	}
}
