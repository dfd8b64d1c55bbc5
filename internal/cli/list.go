package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// list is a list of the API, which is printed as a table or as JSON.
type list struct {
	path  string // below /v1/
	key   string // of the elements in an answer; path if empty
	query url.Values
	page  string // parameter for the next page; "after" if empty
	limit int    // 0 for all
	byID  bool   // each page is sorted by id; the API gives them in no order
	row   func(raw json.RawMessage) (any, error)

	answer apiclient.Answer // the latest page
}

// rowOf returns what makes a row of a table of the JSON of an element.
func rowOf[T any](row func(*T) any) func(raw json.RawMessage) (any, error) {
	return func(raw json.RawMessage) (any, error) {
		var element T
		if err := json.Unmarshal(raw, &element); err != nil {
			return nil, err
		}
		return row(&element), nil
	}
}

// each hands on the elements of the list, page by page; done is called after each page. It reports
// whether the limit left some out.
func (l *list) each(ctx context.Context, api *apiclient.Client, take func(raw json.RawMessage) error, done func() error) (more bool, err error) {
	query, key, page := l.query, l.key, l.page
	if query == nil {
		query = url.Values{}
	}
	if key == "" {
		key = l.path
	}
	if page == "" {
		page = "after"
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
		if l.answer.Decode(&body) != nil || json.Unmarshal(body[key], &elements) != nil || elements == nil {
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
		if err := done(); err != nil {
			return false, err
		}
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
func (l *list) print(ctx context.Context, api *apiclient.Client, out io.Writer, asJSON bool) (n int, more bool, err error) {
	table := terminal.NewTable(terminal.ScreenOf(out))
	more, err = l.each(ctx, api, func(raw json.RawMessage) error {
		n++
		row, err := l.row(raw)
		switch {
		case errors.Is(err, apiclient.ErrStranger):
			return fmt.Errorf("%s: %w", api.Base, err)
		case err != nil:
			return l.answer.Strange
		case asJSON:
			return terminal.WriteJSON(out, raw)
		}
		table.Add(row)
		return nil
	}, func() error { return table.Flush(out) })
	return n, more, err
}

// run prints the list of a command, and says so if it is empty or not the whole.
func (l *list) run(ctx context.Context, flags *apiFlags, asJSON bool, out output) error {
	if l.limit < onePage {
		return usageError{fmt.Errorf("--limit: %d is negative; write 0 for all", l.limit)}
	}
	return flags.with(func(api *apiclient.Client) error {
		n, more, err := l.print(ctx, api, out.stdout, asJSON)
		switch {
		case err != nil || asJSON:
			return err
		case n == 0:
			_, err = fmt.Fprintln(out.stdout, "no "+strings.ReplaceAll(l.path, "-", " "))
		case more:
			_, err = fmt.Fprintf(out.stdout, "\nthe first %s; --limit 0 shows all\n", terminal.Grouped(n))
		}
		return err
	})
}

// pathOf returns the path of the element of a list with a name.
func pathOf(list, name string) string { return "/v1/" + list + "/" + apiclient.Escape(name) }

// queryOf returns a query of the values that are not empty.
func queryOf(values map[string]string) url.Values {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// getOrPrint asks for a path, and either prints the JSON of the answer, or stores it in into.
func getOrPrint(ctx context.Context, api *apiclient.Client, path string, out io.Writer, asJSON bool, into any) (printed bool, err error) {
	var answer apiclient.Answer
	if err := api.Get(ctx, path, nil, &answer); err != nil {
		return false, err
	}
	if asJSON {
		return true, terminal.WriteJSON(out, answer.JSON)
	}
	return false, answer.Decode(into)
}

// create POSTs a body, stores the answer in into, and prints it as JSON or as a text. The empty text
// says that the answer is not one of the API.
func create(ctx context.Context, api *apiclient.Client, out output, asJSON bool, path string, body, into any, text func() string) error {
	var answer apiclient.Answer
	if err := api.Ask(ctx, http.MethodPost, path, body, &answer); err != nil {
		return err
	}
	if asJSON {
		return terminal.WriteJSON(out.stdout, answer.JSON)
	}
	if answer.Decode(into) != nil || text() == "" {
		return answer.Strange
	}
	return say(out.stdout, "%s", text())
}
