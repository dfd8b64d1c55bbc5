package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/httpapi"
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
	jsonFlag
}

type deadRow struct {
	Job      uint64    `table:"JOB"`
	Died     time.Time `table:"DIED (UTC)"`
	Queue    string    `table:"QUEUE"`
	Endpoint string    `table:"ENDPOINT,least=8,inner"`
	Message  string    `table:"MESSAGE,least=12,inner"`
	Attempts int       `table:"ATTEMPTS"`
	Error    string    `table:"ERROR,least=16"`
	Response string    `table:"RESPONSE,least=8,spare"`
}

// Help is the text below the usage line.
func (*deadListCommand) Help() string {
	return `With --json each has the response, and the body that was to be delivered.

Example:

    holter dead-letters list --endpoint ops`
}

// Run lists the dead letters.
func (c *deadListCommand) Run(ctx context.Context, out output) error {
	query := c.query()
	if c.JSON {
		query.Set("bodies", "true")
	}
	l := list{path: "dead-letters", key: "dead_letters", query: query, limit: c.Limit, row: rowOf(func(d *httpapi.DeadLetter) any {
		return deadRow{d.Job, d.Died, d.Queue, cmp.Or(d.Endpoint, d.URL), d.Message, d.Attempts, d.Error, d.Response}
	})}
	return l.run(ctx, &c.apiFlags, c.JSON, out)
}

// deadLetterChange retries or deletes dead letters.
type deadLetterChange struct {
	apiFlags
	laneFlags

	Jobs []uint64 `arg:"" optional:"" name:"job" help:"Their numbers."`
	All  bool     `help:"All of them."`
}

// Run asks for the change.
func (c *deadLetterChange) Run(ctx context.Context, command *kong.Context, out output) error {
	if c.All == (len(c.Jobs) > 0 || c.Queue != "" || c.Endpoint != "") {
		return usageError{errors.New("say which dead letters, by their numbers, with --queue or --endpoint, or --all")}
	}
	done := map[string]string{"retry": "rescheduled", "delete": "deleted"}
	_, verb := wordsOf(command)
	return count(ctx, out, &c.apiFlags, http.MethodPost, "/v1/dead-letters/"+verb,
		httpapi.DeadChoice{Jobs: c.Jobs, Queue: c.Queue, Endpoint: c.Endpoint, All: c.All}, "dead letter", "dead letters", done[verb])
}
