package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
)

// deadLettersCommand manages dead letters: jobs that could not be delivered.
type deadLettersCommand struct {
	List   deadListCommand  `cmd:"" default:"withargs" help:"List the dead letters."`
	Retry  deadLetterChange `cmd:"" help:"Deliver dead letters again."`
	Delete deadLetterChange `cmd:"" help:"Delete dead letters."`
}

type deadListCommand struct {
	apiFlags
	laneFlags
	limitFlag
	listCommand
}

// Help is the text below the usage line.
func (*deadListCommand) Help() string {
	return `With --json each has the response, and the body that was to be delivered.

Example:

    holter dead-letters list --endpoint ops`
}

func deadLetters() list {
	return list{
		key: "dead_letters", bodies: true,
		columns: []string{
			"JOB", "DIED (UTC)", "QUEUE", "ENDPOINT,least=8,inner", "MESSAGE,least=12,inner", "ATTEMPTS", "ERROR,least=16", "RESPONSE,least=8,spare",
		},
		row: rowOf(func(d *httpapi.DeadLetter) []any {
			return []any{d.Job, d.Died, d.Queue, cmp.Or(d.Endpoint, d.URL), d.Message, d.Attempts, d.Error, d.Response}
		}),
	}
}

// deadLetterChange retries or deletes dead letters.
type deadLetterChange struct {
	apiFlags
	laneFlags

	Jobs []uint64 `arg:"" optional:"" name:"job" help:"Their numbers."`
	All  bool     `help:"All of them."`
}

// Run asks for the change.
func (c *deadLetterChange) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	if c.All == (len(c.Jobs) > 0 || c.Queue != "" || c.Endpoint != "") {
		return usageError{errors.New("say which dead letters, by their numbers, with --queue or --endpoint, or --all")}
	}
	done := map[string]string{"retry": "rescheduled", "delete": "deleted"}
	_, verb := wordsOf(command)
	return count(ctx, api, out, http.MethodPost, "/v1/dead-letters/"+verb,
		httpapi.DeadChoice{Jobs: c.Jobs, Queue: c.Queue, Endpoint: c.Endpoint, All: c.All}, "dead letter", done[verb])
}
