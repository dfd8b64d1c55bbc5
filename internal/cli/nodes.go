package cli

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// nodesCommand shows the servers of the fleet, and ends ears.
type nodesCommand struct {
	List  nodesListCommand `cmd:"" default:"withargs" help:"List the servers and ears of the fleet."`
	Drain drainCommand     `cmd:"" help:"Have an ear end in order: it sends its devices to others, a few at a time, and its process ends."`
}

type drainCommand struct {
	changeCommand

	Now bool `help:"Remove it now, so that no verdict waits for it. If it still runs, it disconnects its devices, and may rejoin."`
}

// Run asks for it.
func (c *drainCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	path, done := "/drain", "is draining: see \"holter nodes list\""
	if c.Now {
		path, done = "/drain?now=true", "removed"
	}
	return tell(ctx, api, out, "nodes", c.Name, http.MethodPost, path, nil, done)
}

type nodesListCommand struct{ plainList }

// Help is the text below the usage line.
func (*nodesListCommand) Help() string {
	return `Several servers may share one database on PostgreSQL or MariaDB: one judges, the others stand by. TERM grows with each judge. SEEN is when a server last renewed its row; those that were lost are shown for an hour. Ears hold device connections for the judge, see holter ear.

Example:

    holter nodes list`
}

func nodes() list {
	return list{
		columns: []string{"NODE,least=8", "ROLE,least=8", "TERM,right", "SEEN", "STARTED", "VERSION", "API,spare"},
		row:     nodeRow,
	}
}

func nodeRow(_ *list, raw json.RawMessage) ([]any, error) {
	var n httpapi.Node
	if json.Unmarshal(raw, &n) != nil || n.Node == "" {
		return nil, apiclient.ErrStranger
	}
	role := terminal.Cell{Text: n.Role}
	switch {
	case !n.Alive:
		role = terminal.Cell{Text: "lost", Paint: terminal.Yellow}
	case n.Draining:
		role = terminal.Cell{Text: "draining", Paint: terminal.Yellow}
	case n.Role == string(cluster.Judge):
		role.Paint = terminal.Green
	}
	return []any{n.Node, role, terminal.Grouped(int(n.Term)), n.Renewed, n.Started, n.Version, terminal.Cell{Text: n.API, Paint: terminal.Faint}}, nil
}
