package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/playbook"
)

// lookup returns the settings of something with a name, which a PUT replaces as a whole.
type lookup func(ctx context.Context, name string) (settings any, err error)

// condition is what a change depends on: the tag that the settings must have, or must not have. An
// empty one always holds.
type condition struct{ match, noneMatch string }

type editInput struct {
	Name    string `path:"name" maxLength:"64" doc:"Its name."`
	IfMatch string `header:"If-Match" doc:"The ETag that GET answered with. If the settings have changed since, nothing is done, and the answer is 412."`
}

type putInput[S any] struct {
	Name        string `path:"name" maxLength:"64" doc:"Its name."`
	IfMatch     string `header:"If-Match" doc:"The ETag that GET answered with. If the settings have changed since, nothing is done, and the answer is 412."`
	IfNoneMatch string `header:"If-None-Match" doc:"With * the answer is 412 if it exists already."`
	Body        S
}

// tagged is an answer with the tag of the settings in it.
type tagged struct {
	ETag string `header:"ETag" doc:"Stands for the settings, without state and counts, until the server restarts. Send it back as If-Match."`
	Body any
}

// serveTagged adds an operation that shows something with a name, and the tag of its settings.
func serveTagged[O any](a *API, api huma.API, op huma.Operation, settings lookup, show func(context.Context, *nameInput) (O, error)) {
	huma.Register(api, answers[O](api, op), func(ctx context.Context, in *nameInput) (*tagged, error) {
		now, err := settings(ctx, in.Name) // before the rest, so that the tag is never newer than what it comes with
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		out, err := show(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return &tagged{a.tag(now), out}, nil
	})
}

// tag returns the entity tag of settings. It is keyed, because settings may hold secrets that its
// reader is not shown.
func (a *API) tag(settings any) string {
	sum := hmac.New(sha256.New, a.tagKey[:])
	_ = json.NewEncoder(sum).Encode(settings) // neither a hash nor these structs fail
	return `"` + hex.EncodeToString(sum.Sum(nil)[:12]) + `"`
}

// edit makes a change of something with a name if the condition holds. Edits come one after the
// other, so that the condition still holds when the change is made.
func (a *API) edit(ctx context.Context, name string, c condition, settings lookup, change func() error) error {
	select {
	case a.editing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.editing }()
	if c != (condition{}) {
		now, err := settings(ctx, name)
		if err != nil && !isMissing(err) {
			return err
		}
		if why := c.broken(err == nil, a.tag(now)); why != "" {
			return huma.Error412PreconditionFailed(fmt.Sprintf("%.80q %s; nothing was changed", name, why))
		}
	}
	return change()
}

// broken returns why the condition does not hold, and nothing if it does.
func (c condition) broken(exists bool, tag string) string {
	switch {
	case c.match != "" && !exists:
		return "does not exist any more"
	case c.match != "" && !hasTag(c.match, tag):
		return "has changed since it was read; read it again"
	case c.noneMatch != "" && exists && hasTag(c.noneMatch, tag):
		return "exists already"
	}
	return ""
}

// hasTag reports whether a list of entity tags has one. A star stands for all.
func hasTag(list, tag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == tag {
			return true
		}
	}
	return false
}

// isMissing reports whether an error says that there is nothing with the name or number.
func isMissing(err error) bool {
	return errors.Is(err, jobs.ErrUnknown) || errors.Is(err, cron.ErrUnknown) || errors.Is(err, playbook.ErrUnknown) || isUnknown(err) ||
		errors.Is(err, auth.ErrUnknownToken)
}

// serveChange adds an operation that changes something with a name, and logs what was done, such as
// "queue paused".
func (a *API) serveChange(api huma.API, op huma.Operation, done string, settings lookup, change func(ctx context.Context, name string) error) {
	op.Errors = append(op.Errors, http.StatusPreconditionFailed)
	serveEmpty(a, api, op, func(ctx context.Context, in *editInput) error {
		return a.changedNamed(ctx, done, in.Name, a.edit(ctx, in.Name, condition{match: in.IfMatch}, settings, func() error {
			return change(ctx, in.Name)
		}))
	})
}

func (a *API) queueSettings(_ context.Context, name string) (any, error) {
	return a.config.Delivery.Queue(name)
}

func (a *API) endpointSettings(_ context.Context, name string) (any, error) {
	return a.config.Delivery.Endpoint(name)
}

func (a *API) routeSettings(_ context.Context, name string) (any, error) {
	return a.config.Delivery.Route(name)
}

func (a *API) jobRouteSettings(_ context.Context, name string) (any, error) {
	return a.config.Delivery.JobRoute(name)
}

func (a *API) scheduleSettings(ctx context.Context, name string) (any, error) {
	sc, err := a.config.Schedules.Schedule(ctx, name)
	return scheduleOf(&sc).ScheduleSettings, err
}
