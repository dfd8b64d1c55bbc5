package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/httpapi/auth"
)

const tokensPath = "/v1/tokens"

// TokenStore lists, makes and deletes tokens; [auth.Tokens] is one. The methods are called
// concurrently.
type TokenStore interface {
	// List returns all tokens, the oldest first.
	List(ctx context.Context) ([]auth.Token, error)
	// Create makes a token. An error wraps auth.ErrBad if it is about the name or the role.
	Create(ctx context.Context, name string, role auth.Role) (secret string, _ auth.Token, err error)
	// Revoke deletes a token. An error wraps auth.ErrUnknownToken if there is none with the id.
	Revoke(ctx context.Context, id string) error
}

// Token is a token of the API, without its secret.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name" doc:"Of its owner, for people."`
	Role    string    `json:"role" enum:"read,beat,admin"`
	Created time.Time `json:"created"`
	Current bool      `json:"current,omitempty" doc:"This request came with it."`
}

// NewToken is a token that has just been made.
type NewToken struct {
	Token

	Secret string `json:"secret" doc:"It is shown this once."`
}

type tokenList struct {
	Tokens []Token `json:"tokens" doc:"The oldest first."`
}

type createTokenInput struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"100" doc:"Of its owner, for lists and the server's log. No control characters."`
		Role string `json:"role" enum:"read,beat,admin" doc:"What it allows: read (ask), beat (send heartbeats) or admin (all)."`
	}
}

type tokenInput struct {
	ID string `path:"id" maxLength:"100" doc:"Id of the token, as the list shows it."`
}

func (a *API) registerTokens(api huma.API) {
	if a.config.Tokens == nil {
		return
	}
	serve(a, api, operation("access", "list-tokens", "GET "+tokensPath, "List the tokens", "Without their secrets, of which only hashes are stored."), a.listTokens)
	serve(a, api, operation("access", "create-token", "POST "+tokensPath, "Make a token",
		"The answer has its secret, this once. At an address that only its own machine reaches, no request needs a token until the first one is made. "+
			"Make one with the role admin first: nothing else may make others through the API.", http.StatusUnprocessableEntity), a.createToken)
	serveEmpty(a, api, operation("access", "delete-token", "DELETE "+tokensPath+"/{id}", "Delete a token",
		"It is not accepted any more, and streams that were opened with it end within 5 s. The last token with the role admin can be deleted, too, and so can the "+
			"one that asks: then only holter tokens create, on the database, makes another. Once no token is left, an address that only its own "+
			"machine reaches needs none any more; at any other address all requests are refused.", http.StatusNotFound), a.deleteToken)
}

func viewToken(t *auth.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: utc(t.Created)}
}

func (a *API) listTokens(ctx context.Context, _ *struct{}) (tokenList, error) {
	all, err := a.config.Tokens.List(ctx)
	if err != nil {
		return tokenList{}, err
	}
	own := tokenOf(ctx)
	return tokenList{mapped(all, func(t *auth.Token) Token {
		view := viewToken(t)
		view.Current = own.ID != "" && t.ID == own.ID
		return view
	})}, nil
}

func (a *API) createToken(ctx context.Context, in *createTokenInput) (NewToken, error) {
	secret, t, err := a.config.Tokens.Create(ctx, in.Body.Name, auth.Role(in.Body.Role))
	if err != nil {
		return NewToken{}, err
	}
	a.logChange(ctx, "token made", "id", t.ID, "name", t.Name, "role", string(t.Role))
	return NewToken{viewToken(&t), secret}, nil
}

func (a *API) deleteToken(ctx context.Context, in *tokenInput) error {
	if err := a.config.Tokens.Revoke(ctx, in.ID); err != nil {
		return err
	}
	if a.tokens != nil {
		a.tokens.revoked(in.ID)
	}
	a.logChange(ctx, "token deleted", "id", in.ID)
	return nil
}
