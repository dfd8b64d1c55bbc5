package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// lists are the lists of the API that are small enough to be given as a whole, each with what makes
// a row of an element.
func lists() map[string]func(raw json.RawMessage) (any, error) {
	return map[string]func(raw json.RawMessage) (any, error){
		"endpoints": rowOf(endpointRowOf),
		"playbooks": rowOf(playbookRowOf),
		"queues":    rowOf(queueRowOf),
		"routes":    rowOf(routeRowOf),
		"schedules": rowOf(scheduleRowOf),
	}
}

// wordsOf returns the words of the command that was typed: queues, list.
func wordsOf(command *kong.Context) (list, verb string) {
	words := strings.Fields(command.Command())
	return words[0], words[1]
}

// singular returns the noun of one element of a list.
func singular(list string) string { return strings.TrimSuffix(list, "s") }

// listCommand lists queues, endpoints and the like.
type listCommand struct {
	apiFlags
	jsonFlag
}

// Run prints the list.
func (c *listCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	name, _ := wordsOf(command)
	l := list{path: name, limit: onePage, row: lists()[name]}
	return l.run(ctx, &c.apiFlags, c.JSON, out)
}

// getCommand shows one of them.
type getCommand struct {
	apiFlags
	jsonFlag

	Name string `arg:"" help:"Its name."`
}

// Run prints the element.
func (c *getCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	name, _ := wordsOf(command)
	return c.with(func(api *apiclient.Client) error {
		raw, err := find(ctx, api, name, c.Name)
		if err != nil {
			return err
		}
		if raw == nil {
			return fmt.Errorf("unknown %s %q; \"holter %s list\" shows those there are", singular(name), c.Name, name)
		}
		if c.JSON {
			return terminal.WriteJSON(out.stdout, raw)
		}
		row, err := lists()[name](raw)
		if err != nil {
			return apiclient.NotOurs(api)
		}
		table := terminal.NewTable(terminal.ScreenOf(out.stdout))
		table.Add(row)
		return table.Flush(out.stdout)
	})
}

// find returns the element of a list with a name; nil if there is none.
func find(ctx context.Context, api *apiclient.Client, path, name string) (found json.RawMessage, err error) {
	l := list{path: path, limit: onePage}
	_, err = l.each(ctx, api, func(raw json.RawMessage) error {
		var element struct{ Name string }
		err := json.Unmarshal(raw, &element)
		if element.Name == name {
			found = raw
		}
		return err
	}, func() error { return nil })
	return found, err
}

// put reads the settings of an element of a list, lets change change them, and writes them. What
// the API answers, if anything, is stored in answer.
func put[S any](ctx context.Context, api *apiclient.Client, list, name, query string, answer any, change func(settings *S, found bool) error) error {
	raw, err := find(ctx, api, list, name)
	if err != nil {
		return err
	}
	var settings S
	if raw != nil {
		if err := json.Unmarshal(raw, &settings); err != nil {
			return apiclient.NotOurs(api)
		}
	}
	if err := change(&settings, raw != nil); err != nil {
		return err
	}
	return api.Ask(ctx, http.MethodPut, pathOf(list, name)+query, settings, answer)
}

// set sets what was given.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkSettings rejects a text for --settings that is not JSON.
func checkSettings(text *string, example string) error {
	if text != nil && !json.Valid([]byte(*text)) {
		return usageError{errors.New("--settings: this is not JSON; write an object such as " + example)}
	}
	return nil
}

// changeCommand changes an element of a list in a way that needs no more than its name.
type changeCommand struct {
	apiFlags

	Name string `arg:"" help:"Its name."`
}

// changes are the verbs: how they ask the API, and what is said when it is done.
func changes() map[string]struct{ method, path, done string } {
	return map[string]struct{ method, path, done string }{
		"cancel":     {http.MethodDelete, "", "canceled"},
		"delete":     {http.MethodDelete, "", "deleted"},
		"disable":    {http.MethodPut, "/disabled", "disabled"},
		"disconnect": {http.MethodPost, "/disconnect", "disconnected"},
		"enable":     {http.MethodDelete, "/disabled", "enabled"},
		"forget":     {http.MethodDelete, "", "forgotten"},
		"pause":      {http.MethodPut, "/pause", "paused"},
		"resume":     {http.MethodDelete, "/pause", "resumed"},
		"retire":     {http.MethodPost, "/retire", "retired; its devices are judged by the clocks of the other sources"},
	}
}

// Run asks for the change.
func (c *changeCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	list, verb := wordsOf(command)
	change := changes()[verb]
	return tell(ctx, out, &c.apiFlags, list, c.Name, change.method, change.path, nil, change.done)
}

// tell asks for a change of an element of a list, and says what is done.
func tell(ctx context.Context, out output, flags *apiFlags, list, name, method, path string, body any, done string) error {
	if name == "" {
		return usageError{fmt.Errorf("the name of the %s is empty", singular(list))}
	}
	return flags.with(func(api *apiclient.Client) error {
		if err := api.Ask(ctx, method, pathOf(list, name)+path, body, nil); err != nil {
			if list == "devices" {
				return unknownDevice(err, name)
			}
			return err
		}
		return say(out.stdout, singular(list)+" "+terminal.Printable(name)+" "+done)
	})
}

// say writes a line.
func say(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(out, format+"\n", args...)
	return err
}

// count asks for a change of several elements, and says of how many.
func count(ctx context.Context, out output, flags *apiFlags, method, path string, body any, one, many, done string) error {
	return flags.with(func(api *apiclient.Client) error {
		var answer struct{ Number int }
		if err := api.Ask(ctx, method, path, body, &answer); err != nil {
			return err
		}
		return say(out.stdout, "%s %s", terminal.Plural(answer.Number, one, many), done)
	})
}

// unknownDevice says of a 404 which device is meant.
func unknownDevice(err error, device string) error {
	if r, ok := errors.AsType[*apiclient.Error](err); ok && r.Status == http.StatusNotFound {
		return fmt.Errorf("unknown device %q: %s", device, terminal.Printable(r.Detail))
	}
	return err
}
