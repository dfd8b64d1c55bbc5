package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// Overview is what the API tells of a server as a whole.
type Overview struct {
	Stats   httpapi.Stats
	Sources []httpapi.Source
	Groups  []httpapi.Group
	Problem string // why the server is not ready; empty if it is

	RawStats, RawSources, RawGroups json.RawMessage
}

// AskOverview asks for all of it.
func AskOverview(ctx context.Context, api *Client) (*Overview, error) {
	r := &Overview{}
	if err := api.Get(ctx, "/v1/stats", nil, &r.RawStats); err != nil {
		return nil, err
	}
	var sources, groups map[string]json.RawMessage
	if err := api.Get(ctx, "/v1/sources", nil, &sources); err != nil {
		return nil, err
	}
	if err := api.Get(ctx, "/v1/groups", nil, &groups); err != nil {
		return nil, err
	}
	r.RawSources, r.RawGroups = sources["sources"], groups["groups"]
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{r.RawStats, &r.Stats}, {r.RawSources, &r.Sources}, {r.RawGroups, &r.Groups}} {
		if json.Unmarshal(part.raw, part.into) != nil {
			return nil, NotOurs(api)
		}
	}
	if r.Stats.AsOf.IsZero() {
		return nil, NotOurs(api)
	}
	var err error
	r.Problem, err = Readiness(ctx, api)
	return r, err
}

// AskStats asks for the stats alone.
func AskStats(ctx context.Context, api *Client) (httpapi.Stats, error) {
	var st httpapi.Stats
	err := api.Get(ctx, "/v1/stats", nil, &st)
	if err == nil && st.AsOf.IsZero() {
		err = NotOurs(api)
	}
	return st, err
}

// ServerTime returns the time by the server's clock.
func ServerTime(ctx context.Context, api *Client) (time.Time, error) {
	st, err := AskStats(ctx, api)
	return st.AsOf, err
}

// Readiness returns why the server is not ready; nothing if it is.
func Readiness(ctx context.Context, api *Client) (string, error) {
	err := api.Get(ctx, "/readyz", nil, nil)
	if r, ok := errors.AsType[*Error](err); ok && r.Status == 503 && r.Detail != "" {
		return strings.TrimPrefix(r.Detail, "not ready: "), nil
	}
	return "", err
}

// OutboxText says how events get to where they are kept.
func OutboxText(st *httpapi.Stats) string {
	text := terminal.Grouped(st.Queued) + " waiting to be kept"
	if st.Stalled > 0 {
		text += ", and none was for " + terminal.Rounded(st.Stalled) + ": the clocks stand still, nobody is judged"
	}
	if st.Fails > 0 {
		text += fmt.Sprintf("; %s failures, after each of which the same is tried again", terminal.Grouped(st.Fails))
	}
	return text
}
