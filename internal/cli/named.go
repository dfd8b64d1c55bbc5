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

// pathOf returns the path of the element of a list with a name.
func pathOf(list, name string) string { return "/v1/" + list + "/" + apiclient.Escape(name) }

// singular returns the noun of one element of a list.
func singular(list string) string { return strings.TrimSuffix(list, "s") }

// getCommand shows an element of a list that the API gives as a whole.
type getCommand struct {
	apiFlags
	jsonFlag

	Name string `arg:"" help:"Its name."`
}

// Run prints the element.
func (c *getCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	name, _ := wordsOf(command)
	found, err := find(ctx, api, name, c.Name)
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("unknown %s %q; \"holter %s list\" shows those there are", singular(name), c.Name, name)
	}
	l := lists()[name]
	row, err := l.row(&l, found.JSON)
	if err != nil {
		return found.Strange
	}
	rows := newPrinter(out.stdout, c.JSON, l.columns...)
	return errors.Join(rows.add(found.JSON, row...), rows.flush())
}

// find returns the element of a list with a name; nil if there is none.
func find(ctx context.Context, api *apiclient.Client, list, name string) (*apiclient.Answer, error) {
	var found apiclient.Answer
	err := api.Get(ctx, pathOf(list, name), nil, &found)
	switch {
	case apiclient.StatusOf(err) == http.StatusNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	}
	var element struct{ Name string }
	if found.Decode(&element) != nil || element.Name != name {
		return nil, found.Strange
	}
	return &found, nil
}

// ask asks the API, and prints the answer as JSON or as show does. If show returns
// apiclient.ErrStranger, the answer is not one of the API.
func ask[T any](ctx context.Context, api *apiclient.Client, out output, asJSON bool, method, path string, body any, show func(*T) error) error {
	var answer apiclient.Answer
	if err := api.Ask(ctx, method, path, body, &answer); err != nil {
		return err
	}
	if asJSON {
		return terminal.WriteJSON(out.stdout, answer.JSON)
	}
	var into T
	err := answer.Decode(&into)
	if err == nil {
		err = show(&into)
	}
	if errors.Is(err, apiclient.ErrStranger) {
		return answer.Strange
	}
	return err
}

// put writes the settings S of an element of a list: those that it has, overridden by the options
// that were given, which are a struct whose JSON has the names of the settings. If there is no such
// element, create completes its settings first, unless it is nil. What the API answers is stored in
// answer, unless that is nil. If somebody else changes the element meanwhile, put begins again.
func put[S any](ctx context.Context, api *apiclient.Client, list, name, query string, options, answer any, create func(*S) error) error {
	given, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	for range putAttempts {
		var settings S
		unchanged := map[string]string{"If-None-Match": "*"}
		found, err := find(ctx, api, list, name)
		switch {
		case err != nil:
		case found != nil:
			unchanged = map[string]string{"If-Match": found.ETag}
			err = found.Decode(&settings)
		case create != nil:
			err = create(&settings)
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(given, &settings); err != nil {
			return fmt.Errorf("options: %w", err)
		}
		err = api.AskIf(ctx, http.MethodPut, pathOf(list, name)+query, unchanged, settings, answer)
		if apiclient.StatusOf(err) != http.StatusPreconditionFailed {
			return err
		}
	}
	return fmt.Errorf("%s %q is changed by somebody else again and again; try later", singular(list), name)
}

// putAttempts is how often put tries to write what it has read.
const putAttempts = 5

// set puts an element, and says so.
func set[S any](ctx context.Context, api *apiclient.Client, out output, list, name string, options any, create func(*S) error) error {
	if err := put(ctx, api, list, name, "", options, nil, create); err != nil {
		return err
	}
	return say(out.stdout, "%s %s set", singular(list), terminal.Printable(name))
}

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
func (c *changeCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	list, verb := wordsOf(command)
	if verb == "retry-now" {
		return count(ctx, api, out, http.MethodPost, pathOf(list, c.Name)+"/retry-now", nil, "job", "rescheduled")
	}
	change := changes()[verb]
	return tell(ctx, api, out, list, c.Name, change.method, change.path, nil, change.done)
}

// tell asks for a change of an element of a list, and says what is done.
func tell(ctx context.Context, api *apiclient.Client, out output, list, name, method, path string, body any, done string) error {
	if name == "" {
		return usageError{fmt.Errorf("the name of the %s is empty", singular(list))}
	}
	err := api.Ask(ctx, method, pathOf(list, name)+path, body, nil)
	switch {
	case err == nil:
		return say(out.stdout, "%s %s %s", singular(list), terminal.Printable(name), done)
	case list == "devices":
		return unknownDevice(err, name)
	}
	return err
}

// say writes a line.
func say(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(out, format+"\n", args...)
	return err
}

// count asks for a change of several elements, and says of how many.
func count(ctx context.Context, api *apiclient.Client, out output, method, path string, body any, noun, done string) error {
	var answer struct{ Number int }
	if err := api.Ask(ctx, method, path, body, &answer); err != nil {
		return err
	}
	return say(out.stdout, "%s %s", terminal.Plural(answer.Number, noun, noun+"s"), done)
}

// unknownDevice says of a 404 which device is meant.
func unknownDevice(err error, device string) error {
	if r, ok := errors.AsType[*apiclient.Error](err); ok && r.Status == http.StatusNotFound {
		return fmt.Errorf("unknown device %q: %s", device, terminal.Printable(r.Detail))
	}
	return err
}
