package auth_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m).Run()) }

// tokensIn returns the tokens in a database, which is opened for writing or only shared.
func tokensIn(t *testing.T, url string, shared bool) *auth.Tokens {
	t.Helper()
	open := sqldb.OpenShared
	if !shared {
		open = func(ctx context.Context, cfg sqldb.Config) (*sqldb.DB, error) {
			db, err := sqldb.New(cfg)
			if err == nil {
				err = db.Open(ctx)
			}
			return db, err
		}
	}
	db, err := open(t.Context(), sqldb.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return auth.NewTokens(db)
}

func TestTokens(t *testing.T) {
	for _, db := range testdb.Databases() {
		for _, sharedFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("db=%s/shared first=%v", db.Name, sharedFirst), func(t *testing.T) {
				url := db.URL(t)
				first := tokensIn(t, url, sharedFirst)
				testTokens(t, first, tokensIn(t, url, !sharedFirst))
			})
		}
	}
}

func testTokens(t *testing.T, tokens, beside *auth.Tokens) {
	t.Helper()
	ctx := t.Context()
	if some, err := tokens.Any(ctx); some || err != nil {
		t.Errorf("Any of an empty database: %v, %v", some, err)
	}
	secret, made, err := beside.Create(ctx, "Grafana's ☃", auth.RoleRead)
	if err != nil {
		t.Fatal(err)
	}
	secret2, made2, err := tokens.Create(ctx, "Grafana's ☃", auth.RoleAdmin)
	if err != nil || secret == secret2 || made.ID == made2.ID || len(secret) < 40 {
		t.Fatalf("the second token is %v, %v", made2, err)
	}
	if made.Name != "Grafana's ☃" || made.Role != auth.RoleRead || time.Since(made.Created) > time.Minute {
		t.Errorf("Create = %+v", made)
	}
	if got, ok, err := tokens.Lookup(ctx, secret); !ok || err != nil || got != made {
		t.Errorf("Lookup = %+v, %v, %v, want %+v", got, ok, err, made)
	}
	for _, wrong := range []string{"", secret + "x", secret[:len(secret)-1], made.ID, "' OR 1=1 --", "\x00\xff"} {
		if got, ok, err := tokens.Lookup(ctx, wrong); ok || err != nil {
			t.Errorf("Lookup(%q) = %+v, %v, %v", wrong, got, ok, err)
		}
	}
	if all, err := beside.List(ctx); err != nil || len(all) != 2 || all[0] != made || all[1] != made2 {
		t.Errorf("List = %+v, %v", all, err)
	}
	for _, wrong := range []string{"", "zz", "\x00", "' OR 1=1 --", strings.Repeat(made.ID, 50)} {
		if err := tokens.Revoke(ctx, wrong); !errors.Is(err, auth.ErrUnknownToken) {
			t.Errorf("Revoke(%q): %v, want ErrUnknownToken", wrong, err)
		}
	}
	if err := beside.Revoke(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := tokens.Lookup(ctx, secret); ok || err != nil {
		t.Errorf("a revoked token is found: %v, %v", ok, err)
	}
	if some, err := beside.Any(ctx); !some || err != nil {
		t.Errorf("Any: %v, %v", some, err)
	}
	for _, bad := range []string{"", "a\nb", "\xff", strings.Repeat("x", 101)} {
		if _, _, err := tokens.Create(ctx, bad, auth.RoleRead); err == nil {
			t.Errorf("a token of the name %q is made", bad)
		}
	}
	if _, _, err := tokens.Create(ctx, "x", "root"); err == nil {
		t.Error("a token with the role root is made")
	}
}
