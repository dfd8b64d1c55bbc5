package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

type jobGetCommand struct {
	apiFlags
	jsonFlag

	ID uint64 `arg:"" name:"job" help:"Number of the job."`
}

// Run shows the job.
func (c *jobGetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return ask(ctx, api, out, c.JSON, http.MethodGet, pathOf("jobs", strconv.FormatUint(c.ID, 10)), nil, func(j *httpapi.Job) error {
		_, err := io.WriteString(out.stdout, jobText(j))
		return err
	})
}

// jobText describes a job in lines.
func jobText(j *httpapi.Job) string {
	var text strings.Builder
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&text, "  %-12s  %s\n", label, terminal.Printable(value))
		}
	}
	at := func(label string, t time.Time) {
		if !t.IsZero() {
			line(label, terminal.Stamp(t))
		}
	}
	fmt.Fprintf(&text, "job %d: %s\n", j.Job, j.State)
	line("name", j.Name)
	line("priority", j.Priority)
	line("queue", j.Queue)
	line("endpoint", cmp.Or(j.Endpoint, j.URL))
	line("ordering key", j.Key)
	if j.Event > 0 {
		line("event", strconv.FormatUint(j.Event, 10))
	}
	line("server", j.Node)
	at("created", j.Created)
	at("due", j.RunAt)
	at("started", j.Started)
	at("ended", j.Ended)
	if j.TookMS > 0 {
		line("took", terminal.Duration(j.TookMS).Round(10*time.Microsecond).String())
	}
	line("attempts", fmt.Sprintf("%d failed", j.Attempts))
	line("error", j.Error)
	if j.Status > 0 {
		line("answer", strings.TrimSpace(strconv.Itoa(j.Status)+" "+j.Response))
	}
	return text.String()
}

type jobRescheduleCommand struct {
	apiFlags

	ID uint64         `arg:"" name:"job" help:"Number of the job."`
	In *time.Duration `placeholder:"DURATION" help:"Deliver it after this time. Default: at once."`
}

// Help is the text below the usage line.
func (*jobRescheduleCommand) Help() string {
	return `A job that has not failed yet holds up no others while it waits. The job of an event can only be
delivered at once.

Examples:

    holter jobs reschedule 17
    holter jobs reschedule 17 --in 2h`
}

// Run reschedules the job.
func (c *jobRescheduleCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	var body struct {
		RunAt time.Time `json:"run_at,omitzero"`
	}
	if c.In != nil {
		if *c.In <= 0 {
			return usageError{fmt.Errorf("--in: %v is not above 0; leave it out to deliver at once", *c.In)}
		}
		stats, err := apiclient.AskStats(ctx, api)
		if err != nil {
			return err
		}
		body.RunAt = stats.AsOf.Add(*c.In)
	}
	return tell(ctx, api, out, "jobs", strconv.FormatUint(c.ID, 10), http.MethodPost, "/reschedule", body, "rescheduled")
}
