package playbook

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// storedRow is a playbook that was written through the API.
type storedRow struct {
	bun.BaseModel `bun:"table:playbooks"`

	Name       string          `bun:"name,pk"`
	Definition json.RawMessage `bun:"definition"`
	Changed    time.Time       `bun:"changed"`
}

// Stored returns the playbooks that were written through the API, by name.
func (t *table) Stored(ctx context.Context) ([]storedRow, error) {
	var rows []storedRow
	err := t.db.Read(ctx, "read playbooks", func(ctx context.Context, q sqldb.Reader) error {
		rows = nil
		return q.NewSelect().Model(&rows).Order("name").Scan(ctx)
	})
	return rows, err
}

// Keep stores a playbook, over the one with its name.
func (t *table) Keep(ctx context.Context, row storedRow) error {
	return t.db.Write(ctx, "store a playbook", func(ctx context.Context, tx sqldb.Tx) error {
		put := "INSERT INTO playbooks (name, definition, changed) VALUES (?, ?, ?)" + tx.Upsert("name", "definition", "changed")
		_, err := tx.NewRaw(put, row.Name, row.Definition, row.Changed).Exec(ctx)
		return err
	})
}

// Drop deletes a playbook. Errors: ErrUnknown.
func (t *table) Drop(ctx context.Context, name string) error {
	return t.db.Write(ctx, "delete a playbook", func(ctx context.Context, tx sqldb.Tx) error {
		n, err := sqldb.Changed(tx.NewRaw("DELETE FROM playbooks WHERE name = ?", sqldb.Text(name, maxError)).Exec(ctx))
		if err == nil && n == 0 {
			err = errkind.Errorf(ErrUnknown, "there is no playbook %.80q", name)
		}
		return err
	})
}
