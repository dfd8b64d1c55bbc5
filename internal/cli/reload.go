package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// reloadCommand has a server read its configuration again.
type reloadCommand struct {
	apiFlags

	JSON bool `name:"json" help:"Print JSON: the answer of the API."`
}

// Help is the text below the usage line.
func (*reloadCommand) Help() string {
	return `The server reads its file again, with the options and the environment that it was started with, as it does at SIGHUP. If the file has mistakes, all are printed, nothing changes, and the command ends with 1. What needs a restart is named; nothing else waits for that.

Through a standby it reaches the judge. A standby and an ear are reloaded by SIGHUP.

Example:

    holter reload`
}

// Run reloads, and prints what changed.
func (c *reloadCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	var did httpapi.Reloaded
	if err := api.Ask(ctx, http.MethodPost, "/v1/reload", nil, &did); err != nil {
		return mistakesOf(err)
	}
	if c.JSON {
		if err := terminal.EncodeJSON(out.stdout, did); err != nil {
			return err
		}
	} else if err := printReloaded(out.stdout, &did); err != nil {
		return err
	}
	if len(did.Failed) > 0 {
		return errors.New("not all that has changed could be put in force; see above, and reload again")
	}
	return nil
}

// mistakesOf returns the error of a configuration with mistakes with each of them on lines of its own.
func mistakesOf(err error) error {
	refused, ok := errors.AsType[*apiclient.Error](err)
	if !ok || refused.Status != http.StatusUnprocessableEntity {
		return err
	}
	var lines []string
	for line := range strings.SplitSeq(refused.Detail, "\n") {
		lines = append(lines, terminal.Printable(line))
	}
	return errors.New(strings.Join(lines, "\n"))
}

func printReloaded(out io.Writer, did *httpapi.Reloaded) error {
	lines := []string{"nothing has changed"}
	if len(did.Changed)+len(did.Restart)+len(did.Failed) > 0 {
		lines = nil
	}
	for _, s := range did.Changed {
		lines = append(lines, fmt.Sprintf("%s: %s -> %s", s.Key, s.Before, s.After))
	}
	if did.Devices > 0 {
		lines = append(lines, terminal.Plural(did.Devices, "device has", "devices have")+" another policy")
	}
	if did.Moved > 0 {
		lines = append(lines, terminal.Plural(did.Moved, "device is", "devices are")+" in another group")
	}
	for _, s := range did.Restart {
		lines = append(lines, fmt.Sprintf("needs a restart: %s (in force: %s, file: %s)", s.Key, s.Before, s.After))
	}
	for _, s := range did.Failed {
		lines = append(lines, fmt.Sprintf("failed: %s (in force: %s, file: %s): %s", s.Key, s.Before, s.After, s.Error))
	}
	for _, line := range lines {
		if err := say(out, "%s", terminal.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}
