package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/terminal"
)

type jobsImportCommand struct {
	apiFlags
	jsonFlag

	File string `arg:"" help:"A JSON object of POST /v1/jobs on each line; - for the standard input."`
}

// Help is the text below the usage line.
func (*jobsImportCommand) Help() string {
	return `The jobs are sent in requests of up to 1,000, each of which is enqueued as a whole or not at all. The
first error ends the import; it says up to which line the jobs are enqueued. Where each line has an
idempotency_key, the file can be sent again: no job is enqueued twice.

Example, with these lines in a file:

    {"endpoint":"workers","name":"report.pdf","body":{"n":1},"idempotency_key":"report-1"}
    {"endpoint":"workers","name":"report.pdf","body":{"n":2},"idempotency_key":"report-2"}

    holter jobs import reports.jsonl`
}

// Run enqueues the jobs.
func (c *jobsImportCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if c.File == "-" {
		return c.run(ctx, api, os.Stdin, out)
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	return errors.Join(c.run(ctx, api, file, out), file.Close())
}

// maxJobLine is the maximum length of a line in bytes: a body, and the other fields.
const maxJobLine = delivery.MaxBody + 64<<10

func (c *jobsImportCommand) run(ctx context.Context, api *apiclient.Client, in io.Reader, out output) error {
	im := jobsImport{file: c.File}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxJobLine)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			return im.failed(number, errors.New("the line is not JSON"))
		}
		if len(im.jobs) == delivery.MaxBulk || im.size+len(line) > delivery.MaxBulkBodies {
			if err := im.send(ctx, api, c.JSON, out); err != nil {
				return err
			}
		}
		im.jobs, im.lines, im.size = append(im.jobs, bytes.Clone(line)), append(im.lines, number), im.size+len(line)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return im.failed(number+1, fmt.Errorf("the line has more than %d bytes", maxJobLine))
	case err != nil:
		return im.failed(number+1, err)
	}
	if err := im.send(ctx, api, c.JSON, out); err != nil || c.JSON {
		return err
	}
	return say(out.stdout, "%s enqueued", terminal.Plural(im.done, "job", "jobs"))
}

// jobsImport is a file of jobs while they are enqueued.
type jobsImport struct {
	file  string
	jobs  []json.RawMessage // of the next request
	lines []int             // that they are on
	size  int               // bytes of them
	done  int               // jobs that are enqueued
	last  int               // line of the last of these
}

// send enqueues the jobs of the next request.
func (im *jobsImport) send(ctx context.Context, api *apiclient.Client, asJSON bool, out output) error {
	if len(im.jobs) == 0 {
		return nil
	}
	body := struct {
		Jobs []json.RawMessage `json:"jobs"`
	}{im.jobs}
	var answer apiclient.Answer
	if err := api.Ask(ctx, http.MethodPost, "/v1/jobs/bulk", body, &answer); err != nil {
		return im.failed(im.lineOf(err), err)
	}
	var made struct{ Jobs []uint64 }
	if answer.Decode(&made) != nil || len(made.Jobs) != len(im.jobs) {
		return answer.Strange
	}
	im.done, im.last = im.done+len(im.jobs), im.lines[len(im.lines)-1]
	im.jobs, im.lines, im.size = nil, nil, 0
	if asJSON {
		return terminal.WriteJSON(out.stdout, answer.JSON)
	}
	return nil
}

// lineOf returns the line of the job that an error of the API is about, or else the first one of the
// request.
func (im *jobsImport) lineOf(err error) int {
	if found := regexp.MustCompile(`jobs\[(\d+)\]`).FindStringSubmatch(err.Error()); found != nil {
		if i, err := strconv.Atoi(found[1]); err == nil && i < len(im.lines) {
			return im.lines[i]
		}
	}
	return im.lines[0]
}

// failed returns the error that ends the import at a line.
func (im *jobsImport) failed(line int, err error) error {
	if im.done == 0 {
		return fmt.Errorf("%s:%d: %w; no job is known to be enqueued", im.file, line, err)
	}
	return fmt.Errorf("%s:%d: %w; the jobs up to line %d are enqueued", im.file, line, err, im.last)
}
