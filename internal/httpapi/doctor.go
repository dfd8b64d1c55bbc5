package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const doctorPath = "/v1/doctor"

// examineTime bounds an examination.
const examineTime = 20 * time.Second

// Finding is the result of a check of the machine or the server.
type Finding struct {
	Check string `json:"check" doc:"Name of the check."`
	Level string `json:"level" enum:"ok,warn,fail" doc:"ok: nothing to do. warn: worth a look. fail: something does not work until it is fixed."`
	Text  string `json:"text"`
	Help  string `json:"help,omitempty" doc:"What to do."`

	Value   string `json:"value,omitempty" doc:"Current value."`
	Needed  string `json:"needed,omitempty" doc:"Required value."`
	Command string `json:"command,omitempty" doc:"Command that fixes it."`
}

type findingList struct {
	Findings []Finding `json:"findings"`
}

func (a *API) registerDoctor(api huma.API) {
	if a.config.Examine == nil {
		return
	}
	serve(a, api, operation("administration", "examine", "GET "+doctorPath, "Check the machine and the server for problems",
		"As holter doctor does, but from inside of the server: whether the API can be reached, and whether another process may use the data, is not checked. "+
			"503: another examination is under way, or it took longer than 20 s."), a.examineOnce)
}

// examineOnce runs an examination, unless there is one. An examination that a disk holds up goes on
// after the answer, and keeps others from beginning.
func (a *API) examineOnce(ctx context.Context, _ *struct{}) (findingList, error) {
	later := func(detail string) error {
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(detail), http.Header{"Retry-After": {"5"}})
	}
	select {
	case a.examine <- struct{}{}:
	default:
		return findingList{}, later("another examination is under way; try again in some seconds")
	}
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	done := make(chan []Finding, 1) // capacity 1, for a result that comes too late; never closed
	go func() {
		defer func() { <-a.examine }()
		done <- a.config.Examine(ctx)
	}()
	select {
	case findings := <-done:
		return findingList{mapped(findings, func(f *Finding) Finding { return *f })}, nil
	case <-ctx.Done():
		return findingList{}, later("the checks take longer than 20 s; look for what keeps the disk or the database busy, and try again")
	}
}

// Snapshot returns what /v1/stats, /v1/sources and /v1/nodes show now, for [Config.Examine]. Without a
// Roster there are no nodes.
func (a *API) Snapshot() (stats Stats, sources []Source, nodes []Node) {
	if a.config.Roster != nil {
		nodes = a.nodes()
	}
	return a.statsNow(), a.sourcesNow(), nodes
}
