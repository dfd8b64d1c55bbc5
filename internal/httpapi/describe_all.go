package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/httpapi/auth"
)

// describeAll adds to the description what all operations have in common: where they are served,
// their tags, the role that each requires, and what any request may be refused with.
func describeAll(spec *huma.OpenAPI) {
	spec.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	spec.Info.Contact = &huma.Contact{Name: "Holter", URL: "https://github.com/holter-iot/holter"}
	spec.Servers = []*huma.Server{{URL: "/", Description: "The server that this description is from"}}
	describeProblems(spec)
	describeTokens(spec)
	used := make(map[string]bool)
	for path, item := range spec.Paths {
		for method, op := range operationsOf(item) {
			describeRefusals(op, method, path)
			for _, tag := range op.Tags {
				used[tag] = true
			}
		}
	}
	spec.Tags = slices.DeleteFunc(tags(), func(t *huma.Tag) bool { return !used[t.Name] })
}

func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "access", Description: "Sessions of browsers, and tokens."},
		{Name: "administration", Description: "Changes of devices and sources, and messages to devices."},
		{Name: "delivery", Description: "Endpoints, queues, routes and jobs: how events, and jobs of your own, are delivered."},
		{Name: "devices", Description: "The state of each device, and what it is derived from."},
		{Name: "events", Description: "The log of events: page by page, or as a stream."},
		{Name: "health", Description: "Health checks, metrics and profiles of the process."},
		{Name: "heartbeats", Description: "Heartbeats by HTTP."},
		{Name: "overview", Description: "The fleet as a whole: counts, groups, policies and sources."},
		{Name: "playbooks", Description: "Steps after an event, and their runs."},
		{Name: "schedules", Description: "Things that are done at set times, and their runs."},
	}
}

// describeProblems describes the type of problems as it is here; huma describes it as about:blank.
func describeProblems(spec *huma.OpenAPI) {
	problem := spec.Components.Schemas.Map()["ErrorModel"]
	if problem == nil {
		return
	}
	of := problem.Properties["type"]
	of.Default, of.Examples = nil, []any{problemType(http.StatusNotFound)}
	of.Description = "Address of the explanation of this type of problem."
}

// describeTokens describes a scheme for each role, because tools know roles only as scopes of OAuth.
func describeTokens(spec *huma.OpenAPI) {
	if spec.Components.SecuritySchemes == nil {
		spec.Components.SecuritySchemes = make(map[string]*huma.SecurityScheme)
	}
	for role, may := range map[auth.Role]string{
		auth.RoleRead: "may read everything but profiles", auth.RoleBeat: "may send heartbeats and nothing else", auth.RoleAdmin: "may do everything",
	} {
		spec.Components.SecuritySchemes[string(role)] = &huma.SecurityScheme{
			Type: "http", Scheme: "bearer", Description: "A token with the role " + string(role) + ", which " + may +
				". Required if the server has tokens. A browser may send the cookie of POST " + sessionPath + " instead.",
		}
	}
}

// describeRefusals describes the role that an operation requires, and what it may be refused with
// before it begins. What the operation itself says of a status stays.
func describeRefusals(op *huma.Operation, method, path string) {
	refuse := func(status int, meaning string) {
		if code := strconv.Itoa(status); op.Responses[code] == nil || op.Responses[code].Description == http.StatusText(status) {
			op.Responses[code] = problemResponse(meaning)
		}
	}
	refuse(http.StatusMisdirectedRequest, "The server has no tokens, and the request names another host than localhost")
	need := roleFor(method, path)
	if need == "" {
		op.Security = []map[string][]string{}
		return
	}
	op.Security = []map[string][]string{{string(need): {}}}
	if need != auth.RoleAdmin {
		op.Security = append(op.Security, map[string][]string{string(auth.RoleAdmin): {}})
	}
	refuse(http.StatusUnauthorized, "A token is missing or wrong")
	forbidden := "The token's role may not do this"
	if method != http.MethodGet || path == beatPath+"{id}" {
		forbidden += ", or a page of another site asked a browser for it"
	}
	refuse(http.StatusForbidden, forbidden)
	refuse(http.StatusTooManyRequests, "Too many requests, or too many wrong tokens; come back after Retry-After seconds")
	refuse(http.StatusServiceUnavailable, "The process starts, or the database does not answer; come back after Retry-After seconds")
	if op.RequestBody != nil && need != auth.RoleBeat { // heartbeats describe theirs themselves
		refuse(http.StatusBadRequest, "The body is missing, or is not JSON")
		refuse(http.StatusRequestTimeout, "The body took too long")
		refuse(http.StatusRequestEntityTooLarge, "The body is too long")
		refuse(http.StatusUnsupportedMediaType, "The body is said to be something else than JSON")
	}
}
