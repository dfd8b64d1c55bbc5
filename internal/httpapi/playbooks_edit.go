package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/playbook"
)

// PlaybookDefinition is a playbook with the fields that it has in the configuration file.
type PlaybookDefinition playbook.Definition

// PlaybookMistake is a mistake in a playbook, or a warning.
type PlaybookMistake struct {
	Step    string `json:"step" doc:"Name of the step; empty if it is in none."`
	Key     string `json:"key" doc:"Name of the field; empty if it is in none alone."`
	Message string `json:"message"`
}

// PlaybookCheck is the result of a check.
type PlaybookCheck struct {
	OK        bool              `json:"ok" doc:"PUT would store it."`
	Mistakes  []PlaybookMistake `json:"mistakes"`
	Warnings  []PlaybookMistake `json:"warnings" doc:"Steps that would fail now, because their endpoint or queue does not exist. They do not keep it from being stored."`
	Mermaid   string            `json:"mermaid,omitempty" doc:"The steps as a flowchart, in the language of Mermaid. Left out if there are mistakes."`
	Steps     []PlaybookStep    `json:"steps" doc:"As far as they can be read."`
	Recovered []PlaybookStep    `json:"recovered,omitempty"`
}

// PlaybookDryRun is what a playbook would do after an event.
type PlaybookDryRun struct {
	Starts    bool              `json:"starts" doc:"The event would start a run."`
	Why       string            `json:"why,omitempty" doc:"Why it would not."`
	Steps     []PlaybookDryStep `json:"steps" doc:"All steps, whatever conditions would be."`
	Recovered []PlaybookDryStep `json:"recovered,omitempty" doc:"The steps that run instead after a recovery."`
	Warnings  []PlaybookMistake `json:"warnings" doc:"Steps that would fail now, because their endpoint or queue does not exist."`
}

// PlaybookDryStep is what a step would do.
type PlaybookDryStep struct {
	PlaybookStep

	Would string  `json:"would" doc:"What would be sent, run or asked, with the names in texts replaced. The number of the run is not known: it stays ${run} in texts, and is 0 where all data of the run is sent."`
	At    float64 `json:"at_ms" doc:"Its earliest start after that of the run, or after the recovery. Only waits take time."`
}

type definitionInput struct {
	RawBody []byte `contentType:"application/json"`
}

type putPlaybookInput struct {
	Name        string `path:"name" maxLength:"64" doc:"Its name, which the body may repeat."`
	IfMatch     string `header:"If-Match" doc:"The ETag that GET answered with. If the definition has changed since, nothing is done, and the answer is 412."`
	IfNoneMatch string `header:"If-None-Match" doc:"With * the answer is 412 if it exists already."`
	RawBody     []byte `contentType:"application/json"`
}

type dryRunInput struct {
	Body struct {
		Playbook json.RawMessage `json:"playbook,omitempty" doc:"Definition, as PUT takes it, with its name. Either this or name is required."`
		Name     string          `json:"name,omitempty" doc:"Name of a playbook that exists."`
		Event    uint64          `json:"event" minimum:"1" doc:"Offset of the event."`
	}
}

func (a *API) registerPlaybookEdits(api huma.API) {
	const missing, readOnly, changed = http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed
	defined := func(op huma.Operation) huma.Operation {
		schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[PlaybookDefinition](), true, "")
		op.RequestBody, op.SkipValidateBody = jsonBody(schema, true), true // playbook.Parse validates it
		return op
	}
	serveEmpty(a, api, defined(operation("playbooks", "put-playbook", "PUT /v1/playbooks/{name}", "Make or change a playbook",
		"It is stored in the database, and takes effect at once: open runs continue with it. Steps with a command need HOLTER_DELIVERY_ALLOW_COMMANDS. "+
			"409 for one of the configuration file.", readOnly, changed, http.StatusUnprocessableEntity)), a.putPlaybook)
	a.serveChange(api, operation("playbooks", "delete-playbook", "DELETE /v1/playbooks/{name}", "Delete a playbook",
		"Events start no more runs of it. Open runs wait until there is a playbook with its name, or until they are canceled. 409 for one of the configuration file.",
		missing, readOnly), "playbook deleted", a.playbookSettings, a.config.Playbooks.Delete)
	serve(a, api, defined(operation("playbooks", "check-playbook", "POST /v1/playbooks/check", "Check a playbook",
		"The body is that of PUT, with a name. Nothing is stored.")), a.checkPlaybook)
	serve(a, api, operation("playbooks", "dry-run-playbook", "POST /v1/playbooks/dry-run", "Show what a playbook would do after an event",
		"Nothing is executed, and nothing is stored.", missing), a.dryRunPlaybook)
}

func (a *API) playbookSettings(_ context.Context, name string) (any, error) {
	p, err := a.config.Playbooks.Playbook(name)
	return p.Definition(), err
}

func (a *API) putPlaybook(ctx context.Context, in *putPlaybookInput) error {
	p, err := playbook.Parse(in.Name, in.RawBody)
	if err != nil {
		return err
	}
	return a.changedNamed(ctx, "playbook set", in.Name, a.edit(ctx, in.Name, condition{in.IfMatch, in.IfNoneMatch}, a.playbookSettings, func() error {
		return a.config.Playbooks.Put(ctx, p)
	}))
}

func (a *API) checkPlaybook(_ context.Context, in *definitionInput) (PlaybookCheck, error) {
	p, err := playbook.Parse("", in.RawBody)
	if err == nil {
		err = a.config.Playbooks.Validate(p)
	}
	out := PlaybookCheck{
		OK: err == nil, Mistakes: viewMistakes(playbook.Mistakes(err)), Warnings: viewMistakes(a.config.Playbooks.Warnings(&p)),
		Steps: viewSteps(p.Steps), Recovered: viewSteps(p.Recovered),
	}
	if err == nil {
		out.Mermaid, err = playbook.Mermaid(p)
		return out, err
	}
	return out, nil
}

func viewMistakes(list []*playbook.Error) []PlaybookMistake {
	return mapped(list, func(e **playbook.Error) PlaybookMistake {
		return PlaybookMistake{Step: (*e).Step, Key: (*e).Key, Message: (*e).Err.Error()}
	})
}

func (a *API) dryRunPlaybook(ctx context.Context, in *dryRunInput) (PlaybookDryRun, error) {
	p, err := a.playbookToTry(in)
	if err != nil {
		return PlaybookDryRun{}, err
	}
	d, err := a.config.Playbooks.DryRun(ctx, p, in.Body.Event)
	return PlaybookDryRun{
		Starts: d.Starts, Why: d.Why, Steps: viewDrySteps(d.Steps), Recovered: viewDrySteps(d.Recovered),
		Warnings: viewMistakes(a.config.Playbooks.Warnings(&p)),
	}, err
}

// playbookToTry returns the playbook that a dry run is for.
func (a *API) playbookToTry(in *dryRunInput) (playbook.Playbook, error) {
	switch named, given := in.Body.Name != "", len(in.Body.Playbook) > 0; {
	case named == given:
		return playbook.Playbook{}, huma.Error422UnprocessableEntity("want either a playbook or the name of one")
	case named:
		return a.config.Playbooks.Playbook(in.Body.Name)
	}
	return playbook.Parse("", in.Body.Playbook)
}

func viewDrySteps(from []playbook.DryStep) []PlaybookDryStep {
	steps := mapped(from, func(s *playbook.DryStep) playbook.Step { return s.Step })
	out := make([]PlaybookDryStep, len(from))
	for i, view := range viewSteps(steps) {
		out[i] = PlaybookDryStep{PlaybookStep: view, Would: from[i].Would, At: milliseconds(from[i].At)}
	}
	return out
}
