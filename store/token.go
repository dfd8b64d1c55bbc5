package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"
)

// Role is what the owner of a token may do.
type Role string

const (
	// RoleRead may read.
	RoleRead Role = "read"
	// RoleBeat may send heartbeats.
	RoleBeat Role = "beat"
	// RoleAdmin may do everything.
	RoleAdmin Role = "admin"
)

// ParseRole returns the role of a name, or says which there are.
func ParseRole(name string) (Role, error) {
	switch role := Role(name); role {
	case RoleRead, RoleBeat, RoleAdmin:
		return role, nil
	}
	return "", fmt.Errorf("store: there is no role %q, want read, beat or admin", name)
}

// Token is what is known of a token. Its secret is not: the database has a hash of it.
type Token struct {
	ID      string // short, to revoke it by
	Name    string // for people
	Role    Role
	Created time.Time
}

// ErrUnknownToken is returned for the id of a token that is not there.
var ErrUnknownToken = errors.New("store: unknown token")

// tokenPrefix begins each secret, so that one that got into the open is recognised.
const tokenPrefix = "holter_"

// maxTokenName bounds the name of a token, in characters.
const maxTokenName = 100

// tokenRow is a row of tokens.
type tokenRow struct {
	bun.BaseModel `bun:"table:tokens"`

	ID      string `bun:"id,pk"`
	Name    string `bun:"name"`
	Role    string `bun:"role"`
	Hash    string `bun:"hash"`
	Created int64  `bun:"created"`
}

func (t *tokenRow) token() Token {
	return Token{ID: t.ID, Name: t.Name, Role: Role(t.Role), Created: timeOf(t.Created)}
}

// CreateToken makes a token and returns its secret, which is not to be had again. Errors: a role or a name that cannot be.
func (s *Store) CreateToken(ctx context.Context, name string, role Role) (secret string, t Token, err error) {
	d, err := s.opened()
	if err != nil {
		return "", Token{}, err
	}
	return d.createToken(ctx, name, role)
}

// Tokens returns all tokens, the oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	d, err := s.opened()
	if err != nil {
		return nil, err
	}
	return d.tokens(ctx)
}

// RevokeToken removes a token. Errors: ErrUnknownToken.
func (s *Store) RevokeToken(ctx context.Context, id string) error {
	d, err := s.opened()
	if err != nil {
		return err
	}
	return d.revokeToken(ctx, id)
}

// Lookup returns the token with a secret, and whether there is one.
func (s *Store) Lookup(ctx context.Context, secret string) (Token, bool, error) {
	d, err := s.opened()
	if err != nil {
		return Token{}, false, err
	}
	return d.lookup(ctx, secret)
}

// HasTokens says whether there are tokens.
func (s *Store) HasTokens(ctx context.Context) (bool, error) {
	d, err := s.opened()
	if err != nil {
		return false, err
	}
	return d.hasTokens(ctx)
}

// TokenStore is a store's tokens without the rest. See [OpenTokens].
type TokenStore struct {
	database *database
}

// OpenTokens opens a database for its tokens only, also while a Store is at work on it. It makes the schema if there is none yet. Close it.
// Errors: ErrBadURL, ErrNewerSchema, ErrLost, and those of the database; ErrLocked if the schema is older and a Store is at work.
func OpenTokens(ctx context.Context, cfg Config) (*TokenStore, error) {
	b, err := backendOf(cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := missing(cfg, b); err != nil {
		return nil, err
	}
	d, err := openDatabase(b, patience)
	if err == nil {
		if err = bringUp(ctx, d); err != nil {
			_ = d.close() // the cause is what counts
		}
	}
	if err != nil {
		return nil, wrap(b, "open", err)
	}
	return &TokenStore{d}, nil
}

// bringUp makes sure that the schema is that of this program.
func bringUp(ctx context.Context, d *database) (err error) {
	pending, err := migrate(ctx, d.backend, d.write.DB, true)
	if err != nil || !pending {
		return err
	}
	l, err := d.lock(ctx)
	if err != nil {
		return err
	}
	_, err = migrate(ctx, d.backend, d.write.DB, false)
	return errors.Join(err, l.release())
}

// CreateToken is like [Store.CreateToken].
func (t *TokenStore) CreateToken(ctx context.Context, name string, role Role) (secret string, token Token, err error) {
	return t.database.createToken(ctx, name, role)
}

// Tokens is like [Store.Tokens].
func (t *TokenStore) Tokens(ctx context.Context) ([]Token, error) { return t.database.tokens(ctx) }

// RevokeToken is like [Store.RevokeToken].
func (t *TokenStore) RevokeToken(ctx context.Context, id string) error {
	return t.database.revokeToken(ctx, id)
}

// Lookup is like [Store.Lookup].
func (t *TokenStore) Lookup(ctx context.Context, secret string) (Token, bool, error) {
	return t.database.lookup(ctx, secret)
}

// HasTokens is like [Store.HasTokens].
func (t *TokenStore) HasTokens(ctx context.Context) (bool, error) { return t.database.hasTokens(ctx) }

// Close lets go of the database.
func (t *TokenStore) Close() error { return t.database.close() }

// hashOf returns what is kept of a secret. It is random and long, so that a plain hash gives nothing away.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (d *database) createToken(ctx context.Context, name string, role Role) (string, Token, error) {
	if _, err := ParseRole(string(role)); err != nil {
		return "", Token{}, err
	}
	if name == "" || utf8.RuneCountInString(name) > maxTokenName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", Token{}, fmt.Errorf("store: a token needs a name of 1 to %d characters, none of them a control character", maxTokenName)
	}
	random := make([]byte, 32+5)
	_, _ = rand.Read(random) // never fails
	secret := tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:32])
	row := tokenRow{ID: hex.EncodeToString(random[32:]), Name: name, Role: string(role), Hash: hashOf(secret), Created: nanos(time.Now())}
	err := d.transact(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(&row).Exec(ctx)
		return err
	})
	if err != nil {
		return "", Token{}, wrap(d.backend, "create a token", err)
	}
	return secret, row.token(), nil
}

func (d *database) tokens(ctx context.Context) ([]Token, error) {
	var rows []tokenRow
	err := d.reading(ctx, func(ctx context.Context, db *bun.DB) error {
		return db.NewSelect().Model(&rows).Order("created", "id").Scan(ctx)
	})
	if err != nil {
		return nil, wrap(d.backend, "read tokens", err)
	}
	tokens := make([]Token, len(rows))
	for i := range rows {
		tokens[i] = rows[i].token()
	}
	return tokens, nil
}

func (d *database) revokeToken(ctx context.Context, id string) error {
	err := d.transact(ctx, func(ctx context.Context, tx bun.Tx) error {
		res, err := tx.NewDelete().Model((*tokenRow)(nil)).Where("id = ?", cleanText(id)).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return fmt.Errorf("%w: %q", ErrUnknownToken, id)
	})
	if err != nil && !errors.Is(err, ErrUnknownToken) {
		return wrap(d.backend, "revoke a token", err)
	}
	return err
}

func (d *database) lookup(ctx context.Context, secret string) (Token, bool, error) {
	var row tokenRow
	err := d.reading(ctx, func(ctx context.Context, db *bun.DB) error {
		return db.NewSelect().Model(&row).Where("hash = ?", hashOf(secret)).Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Token{}, false, nil
	}
	if err != nil {
		return Token{}, false, wrap(d.backend, "look a token up", err)
	}
	return row.token(), true, nil
}

func (d *database) hasTokens(ctx context.Context) (bool, error) {
	n := 0
	err := d.reading(ctx, func(ctx context.Context, db *bun.DB) error {
		return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM tokens").Scan(&n)
	})
	if err != nil {
		return false, wrap(d.backend, "look for tokens", err)
	}
	return n > 0, nil
}
