// Package auth keeps the tokens of those who may use the API.
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// Role is what the owner of a token may do.
type Role string

const (
	// RoleRead may read everything but profiles.
	RoleRead Role = "read"
	// RoleBeat may send heartbeats, and nothing else.
	RoleBeat Role = "beat"
	// RoleAdmin may do everything.
	RoleAdmin Role = "admin"
)

// Includes reports whether a role allows what another one does. All roles include the empty one.
func (r Role) Includes(other Role) bool { return other == "" || r == other || r == RoleAdmin }

// Token is what is known of a token. The secret is not: the database has a hash of it.
type Token struct {
	ID      string // short, for [Tokens.Revoke]
	Name    string // for people
	Role    Role
	Created time.Time
}

// ErrBad is wrapped by the error for a role or a name that a token cannot have.
var ErrBad = errors.New("auth: bad token")

// ErrUnknownToken is wrapped by the error for the id of a token that does not exist.
var ErrUnknownToken = errors.New("auth: unknown token")

// tokenPrefix begins each secret, so that a secret that got into the open is recognised.
const tokenPrefix = "holter_"

// maxName bounds the name of a token, in characters.
const maxName = 100

// maxID is how many bytes of an id are looked up.
const maxID = 100

// Tokens are the tokens in a database, which may be open or only shared. All methods may be called
// concurrently, and by several processes.
type Tokens struct {
	db *sqldb.DB
}

// NewTokens returns the tokens in a database. It touches nothing.
func NewTokens(db *sqldb.DB) *Tokens { return &Tokens{db} }

// tokenRow is a row of tokens.
type tokenRow struct {
	ID      string
	Name    string
	Role    string
	Hash    string
	Created int64
}

const columns = "id, name, role, hash, created"

func (t *tokenRow) fields() []any { return []any{&t.ID, &t.Name, &t.Role, &t.Hash, &t.Created} }

func (t *tokenRow) token() Token {
	return Token{ID: t.ID, Name: t.Name, Role: Role(t.Role), Created: sqldb.Time(t.Created)}
}

// hashOf returns what is kept of a secret. A secret is random and long, so a plain hash reveals
// nothing.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Create makes a token and returns its secret, which cannot be had again. Errors: ErrBad, and those of
// the database.
func (t *Tokens) Create(ctx context.Context, name string, role Role) (secret string, _ Token, err error) {
	switch role {
	case RoleRead, RoleBeat, RoleAdmin:
	default:
		return "", Token{}, errkind.Errorf(ErrBad, "there is no role %q, want read, beat or admin", role)
	}
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", Token{}, errkind.Errorf(ErrBad, "a token needs a name of 1 to %d characters, none of them a control character", maxName)
	}
	random := make([]byte, 32+5)
	_, _ = rand.Read(random) // never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:32])
	row := tokenRow{ID: hex.EncodeToString(random[32:]), Name: name, Role: string(role), Hash: hashOf(secret), Created: sqldb.Nanos(time.Now())}
	err = t.db.WriteShared(ctx, "create a token", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, sqldb.InsertInto("tokens", columns), row.fields()...)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, row.token(), nil
}

// List returns all tokens, the oldest first.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	rows, err := sqldb.ReadAll(ctx, t.db, "read tokens", (*tokenRow).fields, "SELECT "+columns+" FROM tokens ORDER BY created, id")
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, len(rows))
	for i := range rows {
		tokens[i] = rows[i].token()
	}
	return tokens, nil
}

// Revoke deletes a token. Errors: ErrUnknownToken, and those of the database.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	return t.db.WriteShared(ctx, "revoke a token", func(ctx context.Context, tx sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM tokens WHERE id = ?", sqldb.Text(id, maxID))
		if err == nil && n == 0 {
			err = errkind.Errorf(ErrUnknownToken, "there is no token %.*q", maxID, id)
		}
		return err
	})
}

// Lookup returns the token with a secret, and reports whether there is one.
func (t *Tokens) Lookup(ctx context.Context, secret string) (Token, bool, error) {
	rows, err := sqldb.ReadAll(ctx, t.db, "look a token up", (*tokenRow).fields, "SELECT "+columns+" FROM tokens WHERE hash = ?", hashOf(secret))
	if err != nil || len(rows) == 0 {
		return Token{}, false, err
	}
	return rows[0].token(), true, nil
}

// Any reports whether there are tokens.
func (t *Tokens) Any(ctx context.Context) (some bool, err error) {
	err = t.db.ReadRow(ctx, "look for tokens", []any{&some}, "SELECT COUNT(*) FROM (SELECT 1 FROM tokens LIMIT 1) first")
	return some, err
}
