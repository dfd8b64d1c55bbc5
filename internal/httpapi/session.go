package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const sessionPath = "/v1/session"

// Session says as whom a browser, or another client, asks.
type Session struct {
	Required bool   `json:"required" doc:"Requests need a token. If not, everybody may do everything."`
	Role     string `json:"role" enum:",read,beat,admin" doc:"Role of the token of this request; empty if none is needed."`
	Name     string `json:"name" doc:"Name of the token of this request; empty if none is needed."`
}

// registerSession adds the routes of sessions. huma describes them and does not serve them.
func (a *API) registerSession(mux routes, api huma.API) {
	const refusals = "A wrong token is answered as everywhere: 401, and 429 after too many from one address."
	add := func(id, method, summary, description string, serve http.HandlerFunc, change func(*huma.Operation)) {
		op := operation("access", id, method+" "+sessionPath, summary, description)
		op.Responses = map[string]*huma.Response{}
		change(&op)
		mux.describe(api, serve, &op)
	}
	refused := func(op *huma.Operation) {
		op.Responses["401"] = problemResponse("A token is missing or wrong")
		op.Responses["429"] = problemResponse("Too many requests, or too many wrong tokens; come back after Retry-After seconds")
		op.Responses["503"] = problemResponse("The process starts, or the database does not answer; come back after Retry-After seconds")
	}
	add("get-session", http.MethodGet, "As whom this client asks", refusals, a.getSession, func(op *huma.Operation) {
		refused(op)
		schema := huma.SchemaFromType(api.OpenAPI().Components.Schemas, reflect.TypeFor[Session]())
		op.Responses["200"] = jsonResponse("The role and the name of the token", schema)
	})
	add("create-session", http.MethodPost, "Log a browser in",
		"The answer sets the cookie "+sessionCookie+", which holds the token until the browser is closed, and which no script can read. "+
			"Every request may have it instead of the header Authorization, which overrides it, but not one from a page of another origin. "+
			"A heartbeat by GET may have it only if the browser says that no such page asks (Sec-Fetch-Site). "+
			"If its token is revoked the next answer is 401, and removes it. "+refusals, a.createSession, func(op *huma.Operation) {
			refused(op)
			body := strict(map[string]string{"token": "The secret of a token."})
			body.Required = []string{"token"}
			op.RequestBody = jsonBody(body, true)
			op.Responses["204"] = &huma.Response{Description: "Logged in"}
			op.Responses["403"] = problemResponse("A page of another site asked a browser for it")
			op.Responses["408"] = problemResponse("The body took longer than 5 s")
			op.Responses["413"] = problemResponse("The body is too long")
			op.Responses["422"] = problemResponse("The body has no token")
		})
	add("delete-session", http.MethodDelete, "Log a browser out", "It removes the cookie. The token stays valid.",
		func(w http.ResponseWriter, _ *http.Request) {
			dropCookie(w)
			w.WriteHeader(http.StatusNoContent)
		}, func(op *huma.Operation) {
			op.Responses["204"] = &huma.Response{Description: "Logged out"}
			op.Responses["403"] = problemResponse("A page of another site asked a browser for it")
		})
}

func (a *API) getSession(w http.ResponseWriter, r *http.Request) {
	required, known := a.requires(w, r)
	if !known {
		return
	}
	out := Session{Required: required}
	if required {
		who, ok := a.verify(w, r, "", credentialOf(r, false))
		if !ok {
			return
		}
		out.Role, out.Name = string(who.Role), who.Name
	}
	writeJSON(w, http.StatusOK, "application/json", &out)
}

// createSession also checks a token while none is needed, because the first one may just have been
// made.
func (a *API) createSession(w http.ResponseWriter, r *http.Request) {
	secret, err := secretOf(w, r)
	if err != nil {
		status, detail := problemOf(err)
		writeProblem(w, status, detail)
		return
	}
	if a.tokens != nil {
		if _, ok := a.verify(w, r, "", credential{secret: secret}); !ok {
			return
		}
		keepCookie(w, r, secret)
	}
	w.WriteHeader(http.StatusNoContent)
}

// secretOf returns the token in a body.
func secretOf(w http.ResponseWriter, r *http.Request) (string, error) {
	body, err := readBeat(w, r)
	if err != nil {
		return "", err
	}
	var said struct {
		Token string `json:"token"`
	}
	const send = `send {"token": "TOKEN"}`
	switch err := decodeStrict(body, &said); {
	case err != nil:
		return "", &requestError{http.StatusUnprocessableEntity, fmt.Sprintf("body: %v; %s", err, send)}
	case strings.TrimSpace(said.Token) == "":
		return "", &requestError{http.StatusUnprocessableEntity, "body: the token is missing; " + send}
	}
	return strings.TrimSpace(said.Token), nil
}
