package playbook

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// storedRow is a playbook that was written through the API.
type storedRow struct {
	Name       string
	Definition json.RawMessage
	Changed    time.Time
}

func (r *storedRow) fields() []any {
	return []any{&r.Name, sqldb.JSON(&r.Definition), sqldb.Instant(&r.Changed)}
}

// Stored returns the playbooks that were written through the API, by name.
func (t *table) Stored(ctx context.Context) ([]storedRow, error) {
	return sqldb.ReadAll(ctx, t.db, "read playbooks", (*storedRow).fields, "SELECT name, definition, changed FROM playbooks ORDER BY name")
}

// Keep stores a playbook, over the one with its name.
func (t *table) Keep(ctx context.Context, row storedRow) error {
	return t.db.Write(ctx, "store a playbook", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, sqldb.InsertInto("playbooks", "name, definition, changed")+tx.Upsert("name", "definition", "changed"), row.fields()...)
		return err
	})
}

// Drop deletes a playbook. Errors: ErrUnknown.
func (t *table) Drop(ctx context.Context, name string) error {
	return t.db.Write(ctx, "delete a playbook", func(ctx context.Context, tx sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM playbooks WHERE name = ?", sqldb.Text(name, maxError))
		if err == nil && n == 0 {
			err = errkind.Errorf(ErrUnknown, "there is no playbook %.80q", name)
		}
		return err
	})
}
