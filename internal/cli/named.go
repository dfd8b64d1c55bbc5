package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

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
		found, err := find(ctx, api, name, c.Name)
		if err != nil {
			return err
		}
		if found == nil {
			return fmt.Errorf("unknown %s %q; \"holter %s list\" shows those there are", singular(name), c.Name, name)
		}
		if c.JSON {
			return terminal.WriteJSON(out.stdout, found.JSON)
		}
		row, err := lists()[name](found.JSON)
		if err != nil {
			return found.Strange
		}
		table := terminal.NewTable(terminal.ScreenOf(out.stdout))
		table.Add(row)
		return table.Flush(out.stdout)
	})
}

// find returns the element of a list with a name; nil if there is none.
func find(ctx context.Context, api *apiclient.Client, path, name string) (found *apiclient.Answer, err error) {
	l := list{path: path, limit: onePage}
	_, err = l.each(ctx, api, func(raw json.RawMessage) error {
		var element struct{ Name string }
		if json.Unmarshal(raw, &element) != nil {
			return l.answer.Strange
		}
		if element.Name == name {
			found = &apiclient.Answer{JSON: raw, Strange: l.answer.Strange}
		}
		return nil
	}, func() error { return nil })
	return found, err
}

// put writes the settings S of an element of a list: those that it has, overridden by the options
// that were given, which are a struct whose JSON has the names of the settings. If there is no such
// element, create completes its settings first. What the API answers is stored in answer, unless
// that is nil.
func put[S any](ctx context.Context, flags *apiFlags, list, name, query string, options, answer any, create func(*S) error) error {
	return flags.with(func(api *apiclient.Client) error {
		found, err := find(ctx, api, list, name)
		if err != nil {
			return err
		}
		var settings S
		if found != nil {
			err = found.Decode(&settings)
		} else {
			err = create(&settings)
		}
		if err != nil {
			return err
		}
		given, err := json.Marshal(options)
		if err == nil {
			err = json.Unmarshal(given, &settings)
		}
		if err != nil {
			return fmt.Errorf("options: %w", err)
		}
		return api.Ask(ctx, http.MethodPut, pathOf(list, name)+query, settings, answer)
	})
}

// asDefault leaves a new element to the defaults of the API.
func asDefault[S any](*S) error { return nil }

// milliseconds is an option that is a duration, which is a number of milliseconds in JSON.
type milliseconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(terminal.Milliseconds(time.Duration(m)))
}

// jsonText is an option whose text is JSON.
type jsonText string

// MarshalJSON implements json.Marshaler.
func (t jsonText) MarshalJSON() ([]byte, error) { return []byte(t), nil }

// check rejects a text for --settings that is not JSON.
func (t *jsonText) check(example string) error {
	if t != nil && !json.Valid([]byte(*t)) {
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
		return say(out.stdout, "%s %s %s", singular(list), terminal.Printable(name), done)
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
