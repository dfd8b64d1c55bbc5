package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/httpapi/auth"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/sqldb"
)

// tokenKeeper is the part of the store that keeps tokens. It does not disturb a running server.
type tokenKeeper interface {
	Create(ctx context.Context, name string, role auth.Role) (secret string, token auth.Token, err error)
	List(ctx context.Context) ([]auth.Token, error)
	Revoke(ctx context.Context, id string) error
	Close() error
}

// tokenOpener opens what keeps the tokens.
type tokenOpener func(ctx context.Context, cfg config.Config) (tokenKeeper, error)

// tokensCommand manages the tokens of the API.
type tokensCommand struct {
	List   tokenListCommand   `cmd:"" default:"withargs" help:"List the tokens, without their secrets."`
	Create tokenCreateCommand `cmd:"" help:"Create a token and show its secret, once."`
	Delete tokenDeleteCommand `cmd:"" help:"Delete a token: it is no longer accepted."`
}

const tokenHelp = `It works on the database itself, whether a server runs or not; a running server notices within some seconds. It needs --data, --database or --config as the server has them. Run it as the server's user, because it owns the files that it creates.

`

type tokenCreateCommand struct {
	storeFlags
	jsonFlag

	Role string `required:"" placeholder:"ROLE" enum:"read,beat,admin" help:"What it allows: read (ask), beat (send heartbeats) or admin (all)."`
	Name string `required:"" placeholder:"NAME" help:"Name of its owner, for lists and the server's log."`
}

// Help is the text below the usage line.
func (*tokenCreateCommand) Help() string {
	return tokenHelp + `Example:

    holter tokens create --role beat --name site-7 --data /var/lib/holter`
}

// Run creates a token.
func (c *tokenCreateCommand) Run(ctx context.Context, command *kong.Context, out output, open tokenOpener) error {
	if strings.TrimSpace(c.Name) == "" {
		return usageError{errors.New("--name: the name is empty; give the name of its owner")}
	}
	cfg, err := c.database(command)
	if err != nil {
		return err
	}
	absent := missing(cfg)
	keeper, err := openKeeper(ctx, cfg, open)
	if err != nil {
		return err
	}
	defer func() { _ = keeper.Close() }() // what was written is committed
	if absent != "" {
		_, _ = fmt.Fprintf(out.stderr, "holter: %s did not exist and was created; the server finds the token if it is started with the same --data, --database or --config\n", absent)
	}
	secret, t, err := keeper.Create(ctx, c.Name, auth.Role(c.Role))
	if err != nil {
		return explained("no token was created", err)
	}
	if c.JSON {
		return terminal.EncodeJSON(out.stdout, tokenLine{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: t.Created.UTC(), Secret: secret})
	}
	_, err = fmt.Fprintf(out.stdout, "%s\n\nThis is the secret of token %s for %s, role %s. It is not shown again.\n\n%s\n",
		secret, t.ID, terminal.Printable(t.Name), t.Role, tokenExample(cfg, string(t.Role)))
	return err
}

// tokenExample shows how to use a token.
func tokenExample(cfg config.Config, role string) string {
	base := server.APIURL(cfg)
	switch role {
	case "beat":
		return "A heartbeat with it:\n\n    curl -X POST -H \"Authorization: Bearer $TOKEN\" " + base + "/v1/beat/DEVICE"
	case "admin":
		return "To use it:\n\n    export HOLTER_API_TOKEN=...\n    holter devices maintenance DEVICE on --api " + base +
			"\n    curl -X PUT -H \"Authorization: Bearer $HOLTER_API_TOKEN\" " + base + "/v1/devices/DEVICE/maintenance"
	}
	return "To use it:\n\n    export HOLTER_API_TOKEN=...\n    holter devices --api " + base +
		"\n    curl -H \"Authorization: Bearer $HOLTER_API_TOKEN\" " + base + "/v1/devices"
}

type tokenListCommand struct {
	storeFlags
	jsonFlag
}

// Help is the text below the usage line.
func (*tokenListCommand) Help() string {
	return tokenHelp + `Example:

    holter tokens list --config fleet.yaml`
}

// tokenLine is a token as JSON.
type tokenLine struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Created time.Time `json:"created"`
	Secret  string    `json:"secret,omitempty"`
}

// Run lists the tokens.
func (c *tokenListCommand) Run(ctx context.Context, command *kong.Context, out output, open tokenOpener) error {
	keeper, err := c.openExisting(ctx, command, open)
	if err != nil {
		return err
	}
	defer func() { _ = keeper.Close() }() // only read
	tokens, err := keeper.List(ctx)
	if err != nil {
		return explained("the tokens cannot be read", err)
	}
	slices.SortStableFunc(tokens, func(a, b auth.Token) int { return a.Created.Compare(b.Created) })
	table := terminal.NewTable(terminal.ScreenOf(out.stdout), "ID", "ROLE", "CREATED (UTC)", "NAME,least=16")
	for _, t := range tokens {
		if c.JSON {
			if err := terminal.EncodeJSON(out.stdout, tokenLine{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: t.Created.UTC()}); err != nil {
				return err
			}
			continue
		}
		table.Add(t.ID, string(t.Role), t.Created.UTC().Format(time.DateTime), t.Name)
	}
	if len(tokens) == 0 && !c.JSON {
		_, err := fmt.Fprintln(out.stdout, "no tokens; \"holter tokens create --role read --name NAME\" creates one")
		return err
	}
	return table.Flush(out.stdout)
}

type tokenDeleteCommand struct {
	storeFlags

	ID string `arg:"" help:"Id of the token, as \"holter tokens list\" shows it."`
}

// Help is the text below the usage line.
func (*tokenDeleteCommand) Help() string {
	return tokenHelp + `Example:

    holter tokens delete 5f2a9c01`
}

// Run deletes a token.
func (c *tokenDeleteCommand) Run(ctx context.Context, command *kong.Context, out output, open tokenOpener) error {
	keeper, err := c.openExisting(ctx, command, open)
	if err != nil {
		return err
	}
	defer func() { _ = keeper.Close() }() // what was written is committed
	if err := keeper.Revoke(ctx, c.ID); err != nil {
		return explained("token "+terminal.Printable(c.ID)+" was not deleted", err)
	}
	_, err = fmt.Fprintf(out.stdout, "token %s deleted; a running server notices within some seconds\n", terminal.Printable(c.ID))
	return err
}

// database returns the configuration, which names the database.
func (f *storeFlags) database(command *kong.Context) (config.Config, error) {
	cfg, err := resolveFlags(command, f.Config, config.Resolve)
	if err != nil {
		return cfg, usageError{fmt.Errorf("the configuration has mistakes:\n%w", err)}
	}
	return cfg, nil
}

// openExisting opens the tokens of a database that exists.
func (f *storeFlags) openExisting(ctx context.Context, command *kong.Context, open tokenOpener) (tokenKeeper, error) {
	cfg, err := f.database(command)
	if err != nil {
		return nil, err
	}
	if absent := missing(cfg); absent != "" {
		return nil, fmt.Errorf("the database %s does not exist; give --data, --database or --config as the server has them", absent)
	}
	return openKeeper(ctx, cfg, open)
}

func openKeeper(ctx context.Context, cfg config.Config, open tokenOpener) (tokenKeeper, error) {
	keeper, err := open(ctx, cfg)
	if err != nil {
		return nil, explained("the database cannot be opened", err)
	}
	return keeper, nil
}

// missing returns the file of a configuration's database if it does not exist.
func missing(cfg config.Config) string {
	path, isFile := server.SQLitePath(server.DatabaseConfig(cfg).URL)
	if !isFile {
		return ""
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// explained adds to an error of the database what it means.
func explained(what string, err error) error {
	why := sqldb.Explain(err)
	if strings.Contains(err.Error(), why) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w\n%s", what, err, why)
}

// sharedTokens are the tokens in a database that a running server may use.
type sharedTokens struct {
	*auth.Tokens

	db *sqldb.DB
}

// Close closes the database.
func (t *sharedTokens) Close() error { return t.db.Close() }

// openTokens opens the tokens of a configuration's database.
func openTokens(ctx context.Context, cfg config.Config) (tokenKeeper, error) {
	db, err := sqldb.OpenShared(ctx, server.DatabaseConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &sharedTokens{auth.NewTokens(db), db}, nil
}
