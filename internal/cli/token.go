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

// tokenKeeper keeps the tokens of the API, beside a server at work.
type tokenKeeper interface {
	Create(ctx context.Context, name string, role auth.Role) (secret string, token auth.Token, err error)
	List(ctx context.Context) ([]auth.Token, error)
	Revoke(ctx context.Context, id string) error
	Close() error
}

// tokenOpener opens what keeps the tokens.
type tokenOpener func(ctx context.Context, cfg config.Config) (tokenKeeper, error)

// tokenCommand looks after the tokens of the API.
type tokenCommand struct {
	Create tokenCreateCommand `cmd:"" help:"Make a token and show its secret, once."`
	List   tokenListCommand   `cmd:"" help:"List the tokens, without their secrets."`
	Revoke tokenRevokeCommand `cmd:"" help:"Take a token away."`
}

const tokenHelp = `It works on the database itself, with or without a running server, which notices within some seconds. It needs --data, --database or --config as the server has them, and the server's user: files that it makes are its own.

`

type tokenCreateCommand struct {
	storeFlags

	Role string `required:"" placeholder:"ROLE" enum:"read,beat,admin" help:"What it allows: read (ask), beat (send heartbeats) or admin (all)."`
	Name string `required:"" placeholder:"NAME" help:"Whose it is; shown in lists and in the server's log."`
	JSON bool   `name:"json" help:"As a JSON object."`
}

// Help is the text below the usage line.
func (*tokenCreateCommand) Help() string {
	return tokenHelp + `Example:

    holter token create --role beat --name site-7 --data /var/lib/holter`
}

// Run makes a token.
func (c *tokenCreateCommand) Run(ctx context.Context, command *kong.Context, out output, open tokenOpener) error {
	if strings.TrimSpace(c.Name) == "" {
		return usageError{errors.New("--name: the name is empty; say whose the token is to be")}
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
		_, _ = fmt.Fprintf(out.stderr, "holter: %s was not there, and is made; the server finds the token if it is started with the same --data, --database or --config\n", absent)
	}
	secret, t, err := keeper.Create(ctx, c.Name, auth.Role(c.Role))
	if err != nil {
		return explained("no token was made", err)
	}
	if c.JSON {
		return terminal.EncodeJSON(out.stdout, tokenLine{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: t.Created.UTC(), Secret: secret})
	}
	_, err = fmt.Fprintf(out.stdout, "%s\n\nThat is the secret of token %s for %s, role %s. It is not shown again.\n\n%s\n",
		secret, t.ID, terminal.Printable(t.Name), t.Role, tokenExample(cfg, string(t.Role)))
	return err
}

// tokenExample says how a token is used.
func tokenExample(cfg config.Config, role string) string {
	base := server.APIURL(cfg)
	switch role {
	case "beat":
		return "A heartbeat with it:\n\n    curl -X POST -H \"Authorization: Bearer $TOKEN\" " + base + "/v1/beat/DEVICE"
	case "admin":
		return "To use it:\n\n    export HOLTER_API_TOKEN=...\n    holter device maintenance DEVICE on --api " + base +
			"\n    curl -X PUT -H \"Authorization: Bearer $HOLTER_API_TOKEN\" " + base + "/v1/devices/DEVICE/maintenance"
	}
	return "To use it:\n\n    export HOLTER_API_TOKEN=...\n    holter devices --api " + base +
		"\n    curl -H \"Authorization: Bearer $HOLTER_API_TOKEN\" " + base + "/v1/devices"
}

type tokenListCommand struct {
	storeFlags

	JSON bool `name:"json" help:"One JSON object a line."`
}

// Help is the text below the usage line.
func (*tokenListCommand) Help() string {
	return tokenHelp + `Example:

    holter token list --config fleet.yaml`
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
	g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "ID"}, terminal.Column{Name: "ROLE"}, terminal.Column{Name: "CREATED (UTC)"}, terminal.Column{Name: "NAME", Least: 16})
	for _, t := range tokens {
		if c.JSON {
			if err := terminal.EncodeJSON(out.stdout, tokenLine{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: t.Created.UTC()}); err != nil {
				return err
			}
			continue
		}
		g.Add(terminal.Cell{Text: t.ID}, terminal.Cell{Text: string(t.Role)}, terminal.Cell{Text: t.Created.UTC().Format(time.DateTime)}, terminal.Cell{Text: t.Name})
	}
	if len(tokens) == 0 && !c.JSON {
		_, err := fmt.Fprintln(out.stdout, "no tokens; \"holter token create --role read --name NAME\" makes one")
		return err
	}
	return g.Flush(out.stdout)
}

type tokenRevokeCommand struct {
	storeFlags

	ID string `arg:"" help:"Id of the token, as \"holter token list\" shows it."`
}

// Help is the text below the usage line.
func (*tokenRevokeCommand) Help() string {
	return tokenHelp + `Example:

    holter token revoke 5f2a9c01`
}

// Run takes a token away.
func (c *tokenRevokeCommand) Run(ctx context.Context, command *kong.Context, out output, open tokenOpener) error {
	keeper, err := c.openExisting(ctx, command, open)
	if err != nil {
		return err
	}
	defer func() { _ = keeper.Close() }() // what was written is committed
	if err := keeper.Revoke(ctx, c.ID); err != nil {
		return explained("token "+terminal.Printable(c.ID)+" was not revoked", err)
	}
	_, err = fmt.Fprintf(out.stdout, "token %s is revoked; a running server notices within some seconds\n", terminal.Printable(c.ID))
	return err
}

// database returns the configuration that says which database is meant.
func (f *storeFlags) database(command *kong.Context) (config.Config, error) {
	cfg, err := f.resolve(command)
	if err != nil {
		return cfg, usageError{fmt.Errorf("the configuration has mistakes:\n%w", err)}
	}
	return cfg, nil
}

// openExisting opens what keeps the tokens, and makes nothing: a database that is not there has none.
func (f *storeFlags) openExisting(ctx context.Context, command *kong.Context, open tokenOpener) (tokenKeeper, error) {
	cfg, err := f.database(command)
	if err != nil {
		return nil, err
	}
	if absent := missing(cfg); absent != "" {
		return nil, fmt.Errorf("there is no database %s; give --data, --database or --config as the server has them", absent)
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

// missing returns the file of a configuration's database if it is not there.
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
	if text := err.Error(); why == "" || why == text || strings.Contains(text, why) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w\n%s", what, err, why)
}
