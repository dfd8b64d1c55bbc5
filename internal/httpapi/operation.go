package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/playbook"
)

// operation describes an operation: its route is method and path, problems are its statuses beside 503.
func operation(tag, id, route, summary, description string, problems ...int) huma.Operation {
	method, path, _ := strings.Cut(route, " ")
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary, Description: description, Errors: append(problems, http.StatusServiceUnavailable),
	}
}

// answer is the output of an operation that answers with a body. It is one type for all bodies, which [answers]
// describes, because huma.Register is compiled anew for each type: to 30 kB of program.
type answer struct{ Body any }

// answers returns an operation that answers with an O.
func answers[O any](api huma.API, op huma.Operation) huma.Operation {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[O](), true, op.OperationID+"Response")
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	op.Responses["200"] = &huma.Response{Content: map[string]*huma.MediaType{jsonType: {Schema: schema}}}
	return op
}

// serve adds an operation that answers with what handle returns. Errors become problems, see [API.problem].
func serve[I, O any](a *API, api huma.API, op huma.Operation, handle func(context.Context, *I) (O, error)) {
	huma.Register(api, answers[O](api, op), func(ctx context.Context, in *I) (*answer, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return &answer{out}, nil
	})
}

// serveEmpty adds an operation that answers without a body.
func serveEmpty[I any](a *API, api huma.API, op huma.Operation, handle func(context.Context, *I) error) {
	huma.Register(api, op, func(ctx context.Context, in *I) (*struct{}, error) {
		if err := handle(ctx, in); err != nil {
			return nil, a.problem(ctx, err)
		}
		return nil, nil
	})
}

// changedNamed logs what was done to something with a name, unless err says that it was not. It returns err.
func (a *API) changedNamed(ctx context.Context, done, name string, err error) error {
	if err == nil {
		a.logChange(ctx, done, "name", name)
	}
	return err
}

// logChange logs what was changed, and with which token.
func (a *API) logChange(ctx context.Context, done string, attrs ...any) {
	a.config.Logger.InfoContext(ctx, "changed through the API", append([]any{"what", done, "token", tokenOf(ctx).Name}, attrs...)...)
}

// problem returns the problem that an error is answered with. An error that says nothing about the request is logged.
func (a *API) problem(ctx context.Context, err error) error {
	if _, ok := errors.AsType[huma.StatusError](err); ok {
		return err
	}
	lines := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch {
	case errors.Is(err, playbook.ErrReadOnly):
		return huma.Error409Conflict(lines)
	case len(playbook.Mistakes(err)) > 0, errors.Is(err, jobs.ErrBad), errors.Is(err, cron.ErrBad), errors.Is(err, auth.ErrBad):
		return huma.Error422UnprocessableEntity(lines)
	case isMissing(err):
		return huma.Error404NotFound(lines)
	case errors.Is(err, jobs.ErrInUse), errors.Is(err, playbook.ErrEnded), errors.Is(err, cron.ErrExists), errors.Is(err, cron.ErrBusy):
		return huma.Error409Conflict(strings.TrimPrefix(lines, "cron: "))
	case errors.Is(err, delivery.ErrFull):
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(lines), http.Header{"Retry-After": {"10"}})
	}
	if ctx.Err() == nil { // else the client is gone
		a.config.Logger.ErrorContext(ctx, "cannot read or write the database", "error", err)
	}
	return huma.ErrorWithHeaders(
		huma.Error503ServiceUnavailable("the database cannot be read or written just now; try again, and see /readyz"), http.Header{"Retry-After": {"1"}})
}

// mapped returns what f makes of each element; it is never nil, because JSON shows that as null.
func mapped[F, T any](from []F, f func(*F) T) []T {
	to := make([]T, len(from))
	for i := range from {
		to[i] = f(&from[i])
	}
	return to
}

// nextPage returns where the next page begins: behind the last element of a full page, and 0 if there is none.
func nextPage[T any](page []T, limit int, number func(*T) uint64) uint64 {
	if len(page) < limit {
		return 0
	}
	return number(&page[len(page)-1])
}
