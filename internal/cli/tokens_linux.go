package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/terminal"
)

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
func (c *tokenCreateCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	if strings.TrimSpace(c.Name) == "" {
		return usageError{errors.New("--name: the name is empty; give the name of its owner")}
	}
	return c.withTokens(ctx, command, func(cfg config.Config, absent string, tokens *auth.Tokens) error {
		if absent != "" {
			_ = say(out.stderr, "holter: %s did not exist and was created; the server finds the token if it is started with the same --data, --database or --config", absent)
		}
		secret, t, err := tokens.Create(ctx, c.Name, auth.Role(c.Role))
		switch {
		case err != nil:
			return explained("no token was created", err)
		case c.JSON:
			return terminal.EncodeJSON(out.stdout, tokenLine{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: t.Created.UTC(), Secret: secret})
		}
		return say(out.stdout, "%s\n\nThis is the secret of token %s for %s, role %s. It is not shown again.\n\n%s",
			secret, t.ID, terminal.Printable(t.Name), t.Role, tokenExample(cfg, string(t.Role)))
	})
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
func (c *tokenListCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	return c.withTokens(ctx, command, func(_ config.Config, _ string, tokens *auth.Tokens) error {
		all, err := tokens.List(ctx)
		if err != nil {
			return explained("the tokens cannot be read", err)
		}
		slices.SortStableFunc(all, func(a, b auth.Token) int { return a.Created.Compare(b.Created) })
		rows := newPrinter(out.stdout, c.JSON, "ID", "ROLE", "CREATED (UTC)", "NAME,least=16")
		for _, t := range all {
			raw, err := json.Marshal(tokenLine{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: t.Created.UTC()})
			if err == nil {
				err = rows.add(raw, t.ID, string(t.Role), t.Created.UTC().Format(time.DateTime), t.Name)
			}
			if err != nil {
				return err
			}
		}
		if len(all) == 0 && !c.JSON {
			return say(out.stdout, "no tokens; \"holter tokens create --role read --name NAME\" creates one")
		}
		return rows.flush()
	})
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
func (c *tokenDeleteCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	return c.withTokens(ctx, command, func(_ config.Config, _ string, tokens *auth.Tokens) error {
		if err := tokens.Revoke(ctx, c.ID); err != nil {
			return explained("token "+terminal.Printable(c.ID)+" was not deleted", err)
		}
		return say(out.stdout, "token %s deleted; a running server notices within some seconds", terminal.Printable(c.ID))
	})
}

// withTokens lets do work on the tokens of a database. absent is the file of the database if it does
// not exist; only tokens create creates it.
func (f *storeFlags) withTokens(
	ctx context.Context, command *kong.Context,
	do func(cfg config.Config, absent string, tokens *auth.Tokens) error,
) error {
	cfg, err := resolveFlags(command, f.Config, config.Resolve)
	if err != nil {
		return usageError{fmt.Errorf("the configuration has mistakes:\n%w", err)}
	}
	absent := missing(cfg)
	if _, verb := wordsOf(command); absent != "" && verb != "create" {
		return fmt.Errorf("the database %s does not exist; give --data, --database or --config as the server has them", absent)
	}
	db, err := sqldb.OpenShared(ctx, server.DatabaseConfig(cfg))
	if err != nil {
		return explained("the database cannot be opened", err)
	}
	defer func() { _ = db.Close() }() // what was written is committed
	return do(cfg, absent, auth.NewTokens(db))
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
