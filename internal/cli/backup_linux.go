package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/sqldb/transfer"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/internal/version"
)

// backupCommand makes a backup, or verifies one.
type backupCommand struct {
	storeFlags

	File   string `arg:"" help:"File of the backup: an SQLite database, whichever database the server has."`
	Verify bool   `help:"Read the backup that is there, all of it, and compare it with its checksums. No database is needed."`
	Force  bool   `help:"Replace a backup that is there, once the new one is complete."`
}

// Help is the text below the usage line.
func (*backupCommand) Help() string {
	return `It reads the database itself, at one instant, while the server goes on; so it needs --data, --database or --config as the server has them, and runs as the server's user. What it wrote it reads again and compares. The file is there as a whole or not at all. It holds the secrets of the fleet, and devices.key of the data directory: keep it as safe as the database. The files of log endpoints are not in it.

Examples:

    holter backup /backup/holter-$(date +%F).db --data /var/lib/holter
    holter backup --verify /backup/holter-2026-11-27.db`
}

// Run makes the backup.
func (c *backupCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	if c.Verify {
		b, err := transfer.Verify(ctx, c.File)
		if err != nil {
			return fmt.Errorf("it cannot be restored: %w", err)
		}
		return say(out.stdout, "%s is whole: %s", c.File, backupText(b))
	}
	cfg, db, err := c.openStored(command)
	if err != nil {
		return err
	}
	if absent := missing(cfg); absent != "" {
		return fmt.Errorf("the database %s does not exist; give --data, --database or --config as the server has them", absent)
	}
	b, err := transfer.Make(ctx, db, c.File, transfer.Options{
		Replace: c.Force, Program: version.Text(), Dir: cfg.Data, Files: server.KeptFiles(), Tell: progressOn(out.stderr),
	})
	if err != nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	return say(out.stdout, "%s: %s", c.File, backupText(b))
}

// openStored returns the database of the server, not open.
func (f *storeFlags) openStored(command *kong.Context) (config.Config, *sqldb.DB, error) {
	cfg, err := resolveFlags(command, f.Config, config.Resolve)
	if err != nil {
		return cfg, nil, usageError{fmt.Errorf("the configuration has mistakes:\n%w", err)}
	}
	db, err := sqldb.New(server.DatabaseConfig(cfg))
	if err != nil {
		return cfg, nil, usageError{err}
	}
	return cfg, db, nil
}

// backupText describes a backup.
func backupText(b transfer.Backup) string {
	text := fmt.Sprintf("%s rows, %s bytes, schema %d", terminal.Grouped(b.Rows), terminal.Grouped(b.Bytes), b.Schema)
	if b.Checked {
		text += fmt.Sprintf("; fleet %.8s of %s, at %s", b.Fleet, b.Source, utc(b.Made))
	} else {
		text += fmt.Sprintf("; fleet %.8s; another program has made it, so there are no checksums, and only SQLite's own check was made", b.Fleet)
	}
	if b.Checkpoint.IsZero() {
		return text + "; no heartbeats yet"
	}
	return text + "; heartbeats until " + utc(b.Checkpoint)
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// progressEvery is how often the progress of a copy is printed.
const progressEvery = 2 * time.Second

// progressOn prints the progress of a copy.
func progressOn(w io.Writer) transfer.Progress {
	last := time.Now()
	return func(table string, rows int64) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			_ = say(w, "holter: table %s: %s rows", table, terminal.Grouped(rows)) // nobody may be watching
		}
	}
}

// restoreCommand puts a backup into a database.
type restoreCommand struct {
	storeFlags

	File  string `arg:"" help:"File of the backup."`
	Force bool   `help:"Give up the fleet that is in the database, and another devices.key in the data directory."`
}

// Help is the text below the usage line.
func (*restoreCommand) Help() string {
	return `Stop all servers before. The backup is read and compared with its checksums first; it may be of another kind of database, and of an older version. The database must be empty; --force gives up what is there. After a restore the server starts without a question. If it is ended early, run it again: until it has succeeded, no server starts on that database, unless it is a file that was to be replaced, and is still what it was.

Examples:

    holter restore /backup/holter-2026-11-27.db --data /var/lib/holter
    holter restore /backup/holter-2026-11-27.db --database postgres://holter@db/holter --data /var/lib/holter`
}

// Run restores the backup.
func (c *restoreCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	cfg, db, err := c.openStored(command)
	if err != nil {
		return err
	}
	b, err := transfer.Restore(ctx, c.File, db, cfg.Data, c.Force, progressOn(out.stderr))
	if err != nil {
		return fmt.Errorf("the backup was not restored: %w", err)
	}
	return say(out.stdout, "%s holds the fleet now: %s\nWhat happened after that is not in it. The server may be started.", db.Place(), backupText(b))
}

// migrateCommand moves a fleet to another database.
type migrateCommand struct {
	Data   string     `setting:"data" env:"HOLTER_DATA" placeholder:"DIR" help:"Data directory of the server. Default: ./holter-data."`
	From   secretFlag `setting:"database" env:"HOLTER_DATABASE" placeholder:"URL" help:"Database of the server now. Default: SQLite in the directory."`
	To     secretFlag `required:"" env:"HOLTER_MIGRATE_TO" placeholder:"URL" help:"Database that it is to have: an empty one. Other users of this machine see command lines: prefer the environment for one with a password."`
	Config string     `env:"HOLTER_CONFIG" placeholder:"FILE" help:"YAML file of the server, which may say where it is now."`
	Undo   bool       `help:"Go back: the fleet is again what it was in --from when it was moved to --to. What it has done since is left in --to."`
}

// Help is the text below the usage line.
func (*migrateCommand) Help() string {
	return `It copies the events while the server goes on, then says that the server is to be stopped, and waits for that; it copies the rest, compares all, and marks the old database, so that no server starts on it any more. Then start the server with the new one. For the devices it is a restart. If it is ended early, run it again.

Examples:

    holter migrate --data /var/lib/holter --to postgres://holter@db/holter
    holter migrate --from postgres://holter@db/holter --to mysql://holter@db2/holter
    holter migrate --data /var/lib/holter --to postgres://holter@db/holter --undo`
}

// Run moves the fleet.
func (c *migrateCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	f := storeFlags{Config: c.Config}
	cfg, _, err := f.openStored(command)
	if err != nil {
		return err
	}
	m := transfer.Move{
		From: server.DatabaseConfig(cfg), To: sqldb.Config{URL: string(c.To), Dir: cfg.Data},
		Tell: progressOn(out.stderr), Say: func(text string) { _ = say(out.stderr, "holter: %s", text) },
	}
	if c.Undo {
		if err := m.Undo(ctx); err != nil {
			return fmt.Errorf("nothing was changed back: %w", err)
		}
		return say(out.stdout, "the fleet is again what it was when it was moved. The server may be started with the database of --from.")
	}
	moved, err := m.Run(ctx)
	switch {
	case errors.Is(err, sqldb.ErrBadURL):
		return usageError{err}
	case err != nil:
		return fmt.Errorf("the fleet was not moved: %w", err)
	case moved.Before:
		return say(out.stdout, "fleet %.8s was moved there before; start the server with the database of --to.", moved.Fleet)
	}
	return say(out.stdout, "fleet %.8s was moved: %s rows, and events up to %s; nobody could write for %s. Start the server with the database of --to.",
		moved.Fleet, terminal.Grouped(moved.Rows), terminal.Grouped(moved.Events), terminal.Short(moved.Stopped))
}
