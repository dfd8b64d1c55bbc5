package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holter-iot/holter/internal/httpapi"
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
	var sources struct{ Sources json.RawMessage }
	var groups struct{ Groups json.RawMessage }
	for _, part := range []struct {
		path string
		body any              // the whole answer
		raw  *json.RawMessage // the part of it that is decoded
		into any
	}{
		{"stats", &r.RawStats, &r.RawStats, &r.Stats},
		{"sources", &sources, &sources.Sources, &r.Sources},
		{"groups", &groups, &groups.Groups, &r.Groups},
	} {
		var answer Answer
		if err := api.Get(ctx, "/v1/"+part.path, nil, &answer); err != nil {
			return nil, err
		}
		if answer.Decode(part.body) != nil || json.Unmarshal(*part.raw, part.into) != nil || r.Stats.AsOf.IsZero() {
			return nil, answer.Strange
		}
	}
	r.RawSources, r.RawGroups = sources.Sources, groups.Groups
	var err error
	r.Problem, err = Readiness(ctx, api)
	return r, err
}

// AskStats asks for the stats alone.
func AskStats(ctx context.Context, api *Client) (httpapi.Stats, error) {
	var answer Answer
	if err := api.Get(ctx, "/v1/stats", nil, &answer); err != nil {
		return httpapi.Stats{}, err
	}
	var st httpapi.Stats
	if err := answer.Decode(&st); err != nil || st.AsOf.IsZero() {
		return st, answer.Strange
	}
	return st, nil
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
