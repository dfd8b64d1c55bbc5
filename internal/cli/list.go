package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// pageSize is the most elements that the API gives at a time.
const pageSize = 1000

// jsonFlag is the option of every command that prints data.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print JSON: an object for each line of the table, with all that the API gives."`
}

// limitFlag is the option of lists that may be long.
type limitFlag struct {
	Limit int `default:"100" placeholder:"N" help:"Show at most N; 0 for all. Default: 100."`
}

// listCommand lists what its noun stands for, such as queues. Flags and arguments with the tag query
// select what is listed.
type listCommand struct{ jsonFlag }

// plainList lists all there is.
type plainList struct {
	apiFlags
	listCommand
}

// list is a list of the API, which is printed as a table or as JSON.
type list struct {
	path    string   // below /v1/; the noun of the command if empty
	key     string   // of the elements in an answer; path if empty
	page    string   // parameter for the next page; "after" if empty
	byID    bool     // each page is sorted by id; the API gives them in no order
	bodies  bool     // with --json the elements have their bodies, too
	columns []string // of the table
	row     func(l *list, raw json.RawMessage) ([]any, error)

	query  url.Values
	limit  int              // 0 for all
	answer apiclient.Answer // the latest page
}

// lists are the lists of the API, by the words of their commands.
func lists() map[string]list {
	return map[string]list{
		"dead-letters": deadLetters(), "devices": devices(), "endpoints": endpoints(), "job-routes": jobRoutes(), "jobs": jobs(), "nodes": nodes(), "playbooks": playbooks(),
		"queues": queues(), "routes": routes(), "runs": runs(), "schedules": schedules(), "schedules history": scheduleRuns(),
		"learn": learned(), "sources": sources(),
	}
}

// rowOf returns what makes a row of a table of the JSON of an element.
func rowOf[T any](row func(*T) []any) func(l *list, raw json.RawMessage) ([]any, error) {
	return func(_ *list, raw json.RawMessage) ([]any, error) {
		var element T
		if err := json.Unmarshal(raw, &element); err != nil {
			return nil, err
		}
		return row(&element), nil
	}
}

// wordsOf returns the words of the command that was typed: queues, list.
func wordsOf(command *kong.Context) (list, verb string) {
	words := strings.Fields(command.Command())
	return words[0], words[1]
}

// listOf returns the list of a command, with what its flags select.
func listOf(command *kong.Context) (list, error) {
	noun, verb := wordsOf(command)
	l, ok := lists()[noun+" "+verb]
	if !ok {
		l = lists()[noun]
	}
	l.path, l.query, l.limit = cmp.Or(l.path, noun), queryOf(command), onePage
	for _, flag := range command.Flags() {
		if flag.Name != "limit" {
			continue
		}
		if l.limit = int(flag.Target.Int()); l.limit < 0 {
			return l, usageError{fmt.Errorf("--limit: %d is negative; write 0 for all", l.limit)}
		}
	}
	return l, nil
}

// queryOf returns what the flags and arguments with the tag query select.
func queryOf(command *kong.Context) url.Values {
	query := url.Values{}
	values := slices.Clone(command.Selected().Positional)
	for _, flag := range command.Flags() {
		values = append(values, flag.Value)
	}
	for _, v := range values {
		name := v.Tag.Get("query")
		if name == "" || v.Target.IsZero() {
			continue
		}
		query[name] = []string{fmt.Sprint(v.Target.Interface())}
		if all, ok := reflect.TypeAssert[[]string](v.Target); ok {
			query[name] = all
			if v.Tag.Has("joined") {
				query[name] = []string{strings.Join(all, ",")}
			}
		}
	}
	return query
}

// Run prints the list, and says so if it is empty or not the whole.
func (c *listCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	l, err := listOf(command)
	if err != nil {
		return err
	}
	if c.JSON && l.bodies {
		l.query.Set("bodies", "true")
	}
	n, more, err := l.print(ctx, api, out, c.JSON)
	switch {
	case err != nil || c.JSON:
	case n == 0:
		err = say(out.stdout, "no %s", strings.ReplaceAll(l.path, "-", " "))
	case more:
		err = say(out.stdout, "\nthe first %s; --limit 0 shows all", terminal.Grouped(n))
	}
	return err
}

// each hands on the elements of the list, page by page. It reports whether the limit left some out.
func (l *list) each(ctx context.Context, api *apiclient.Client, take func(json.RawMessage) error) (more bool, err error) {
	query, page := l.query, cmp.Or(l.page, "after")
	if query == nil {
		query = url.Values{}
	}
	for n := 0; ; {
		if l.limit >= 0 {
			size := pageSize
			if l.limit > 0 {
				size = min(size, l.limit-n)
			}
			query.Set("limit", strconv.Itoa(size))
		}
		if err := api.Get(ctx, "/v1/"+l.path, query, &l.answer); err != nil {
			return false, err
		}
		var body map[string]json.RawMessage
		var elements []json.RawMessage
		if l.answer.Decode(&body) != nil || json.Unmarshal(body[cmp.Or(l.key, l.path)], &elements) != nil || elements == nil {
			return false, l.answer.Strange
		}
		if l.byID {
			slices.SortStableFunc(elements, func(a, b json.RawMessage) int { return cmp.Compare(idOf(a), idOf(b)) })
		}
		for _, raw := range elements {
			if err := take(raw); err != nil {
				return false, err
			}
		}
		n += len(elements)
		next := strings.Trim(string(body["next"]), `"`)
		switch {
		case next == "" || next == "0":
			return false, nil
		case l.limit > 0 && n >= l.limit:
			return true, nil
		case next == query.Get(page):
			return false, l.answer.Strange
		}
		query.Set(page, next)
	}
}

// idOf returns the id of an element; "" if it has none.
func idOf(raw json.RawMessage) string {
	var element struct{ ID string }
	_ = json.Unmarshal(raw, &element) // row reports it
	return element.ID
}

// onePage is the limit of lists that the API gives as a whole.
const onePage = -1

// print prints the list, and returns how many elements it printed, and whether there are more.
func (l *list) print(ctx context.Context, api *apiclient.Client, out output, asJSON bool) (n int, more bool, err error) {
	rows := newPrinter(out.stdout, asJSON, l.columns...)
	more, err = l.each(ctx, api, func(raw json.RawMessage) error {
		row, err := l.row(l, raw)
		switch {
		case errors.Is(err, apiclient.ErrStranger):
			return fmt.Errorf("%s: %w", api.Base, err)
		case err != nil:
			return l.answer.Strange
		}
		return rows.add(raw, row...)
	})
	return rows.n, more, errors.Join(err, rows.flush())
}
