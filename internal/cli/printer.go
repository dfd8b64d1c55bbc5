package cli

import (
	"encoding/json"
	"io"

	"github.com/holter-iot/holter/internal/terminal"
)

// printer prints elements, as the rows of a table or as the JSON that the API gave.
type printer struct {
	out   io.Writer
	json  bool
	table *terminal.Table
	n     int // elements so far
}

func newPrinter(out io.Writer, asJSON bool, columns ...string) *printer {
	return &printer{out: out, json: asJSON, table: terminal.NewTable(terminal.ScreenOf(out), columns...)}
}

// add prints an element, a row when its page is full or at flush.
func (p *printer) add(raw json.RawMessage, row ...any) error {
	p.n++
	if p.json {
		return terminal.WriteJSON(p.out, raw)
	}
	p.table.Add(row...)
	if p.table.Buffered() >= pageSize {
		return p.flush()
	}
	return nil
}

// flush prints the rows that were added since the last time.
func (p *printer) flush() error { return p.table.Flush(p.out) }
