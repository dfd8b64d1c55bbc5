package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/playbook"
)

// Playbook defines the actions that follow an event.
type Playbook struct {
	Name      string            `json:"name"`
	When      *playbook.Trigger `json:"when,omitempty" doc:"Events that start a run. Left out: none; it is started by hand."`
	Paused    bool              `json:"paused" doc:"Its route is paused or its endpoint is disabled, so events start no runs."`
	OnRecover string            `json:"on_recover" enum:"cancel,ignore,divert" doc:"What happens to a run when its subject recovers: it is canceled, continues, or is diverted to the steps of recovered."`
	Steps     []PlaybookStep    `json:"steps"`
	Recovered []PlaybookStep    `json:"recovered,omitempty"`
	Origin    string            `json:"origin" enum:"file,api" doc:"file: it is in the server's configuration file, and cannot be changed here; api: it was written through the API."`
	Mermaid   string            `json:"mermaid,omitempty" doc:"The steps as a flowchart, in the language of Mermaid. In lists it is left out."`

	Definition *PlaybookDefinition `json:"definition,omitempty" doc:"The fields that PUT takes. In lists they are left out."`
}

// PlaybookStep is one action of a playbook.
type PlaybookStep struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind" doc:"probe, webhook, mqtt, deliver, wait, condition, command or note."`
	Does  string   `json:"does" doc:"Short description."`
	After []string `json:"after,omitempty" doc:"The steps that come before it."`
	If    string   `json:"if,omitempty" doc:"The condition that must hold; after not, the one that must not."`
}

// Run is a run of a playbook.
type Run struct {
	Run      uint64    `json:"run" doc:"Its number, which is also that of its job."`
	Playbook string    `json:"playbook"`
	Subject  string    `json:"subject" doc:"The device, group or source that it is about."`
	Event    uint64    `json:"event,omitempty" doc:"Offset of the event that started it; left out if it was started by hand."`
	State    string    `json:"state" enum:"running,waiting,done,failed,recovered,canceled" doc:"waiting: until wake, or to start; failed: a step failed; recovered: its subject recovered."`
	Diverted bool      `json:"diverted,omitempty" doc:"A recovery has diverted it to the steps of recovered."`
	Started  time.Time `json:"started,omitzero" doc:"Left out for a run that has not started; lists do not contain such runs."`
	Ended    time.Time `json:"ended,omitzero"`
	Wake     time.Time `json:"wake,omitzero"`
	Error    string    `json:"error,omitempty" doc:"Reason why it is not done."`
}

// RunStep is a step of a run with its progress.
type RunStep struct {
	PlaybookStep

	State    string    `json:"state" enum:"pending,waiting,done,failed,skipped,canceled" doc:"pending: it has not started; waiting: until wake; canceled: the run ended before."`
	Attempts int       `json:"attempts,omitempty" doc:"Failed attempts; for a probe, the number of probes sent."`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Wake     time.Time `json:"wake,omitzero"`
	Holds    *bool     `json:"holds,omitempty" doc:"Result of a condition that was evaluated."`
	Output   string    `json:"output,omitempty"`
	Error    string    `json:"error,omitempty"`
}

type playbookList struct {
	Playbooks []Playbook `json:"playbooks"`
}

type startRunInput struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the playbook."`
	Body struct {
		Device string `json:"device" doc:"Id of the device."`
	}
}

type runNumber struct {
	Run uint64 `json:"run" doc:"Its number."`
}

type runsInput struct {
	Playbook string `query:"playbook" doc:"Only of this one."`
	Subject  string `query:"subject" doc:"Only about this device, group or source."`
	State    string `query:"state" enum:"running,waiting,done,failed,recovered,canceled" doc:"Only in this state."`
	Before   uint64 `query:"before" doc:"Only with a smaller number: next of the previous page."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
}

type runPage struct {
	Runs []Run  `json:"runs"`
	Next uint64 `json:"next,omitempty" doc:"Value of before for the next page; left out on the last page."`
}

type oneRunInput struct {
	Run uint64 `path:"run" doc:"The run's number."`
}

// RunDetails is a run with its steps.
type RunDetails struct {
	Run

	Steps []RunStep `json:"steps"`
}

func (a *API) registerPlaybooks(api huma.API) {
	if a.config.Playbooks == nil {
		return
	}
	serve(a, api, operation("playbooks", "list-playbooks", "GET /v1/playbooks", "List the playbooks", "Those of the server's configuration file, and those that were written through the API, by name."), a.listPlaybooks)
	serveTagged(a, api, operation("playbooks", "get-playbook", "GET /v1/playbooks/{name}", "Show a playbook",
		"With its steps, also as a flowchart and as PUT takes them. The ETag stands for the definition.", http.StatusNotFound), a.playbookSettings, a.getPlaybook)
	a.registerPlaybookEdits(api)
	serve(a, api, operation("playbooks", "start-run", "POST /v1/playbooks/{name}/run", "Run a playbook for a device",
		"It needs no event. The run is stored when this is answered.", http.StatusNotFound), a.startRun)
	serve(a, api, operation("playbooks", "list-runs", "GET /v1/runs", "List the runs of playbooks", "The latest first.", http.StatusNotFound), a.listRuns)
	serve(a, api, operation("playbooks", "get-run", "GET /v1/runs/{run}", "Show a run and its steps", "With the progress of each step.", http.StatusNotFound), a.getRun)
	serveEmpty(a, api, operation("playbooks", "cancel-run", "DELETE /v1/runs/{run}", "Cancel a run",
		"A step in progress may still complete.", http.StatusNotFound, http.StatusConflict), a.cancelRun)
}

func (a *API) listPlaybooks(context.Context, *struct{}) (playbookList, error) {
	return playbookList{mapped(a.config.Playbooks.Playbooks(), a.viewPlaybook)}, nil
}

func (a *API) getPlaybook(_ context.Context, in *nameInput) (Playbook, error) {
	p, err := a.config.Playbooks.Playbook(in.Name)
	if err != nil {
		return Playbook{}, err
	}
	out := a.viewPlaybook(&p)
	definition := PlaybookDefinition(p.Definition())
	out.Definition = &definition
	out.Mermaid, err = playbook.Mermaid(p)
	return out, err
}

func (a *API) viewPlaybook(p *playbook.Playbook) Playbook {
	out := Playbook{Name: p.Name, Origin: "file", OnRecover: p.Recovery.String(), Steps: viewSteps(p.Steps), Recovered: viewSteps(p.Recovered)}
	if a.config.Playbooks.Stored(p.Name) {
		out.Origin = "api"
	}
	if p.On != nil {
		out.When, out.Paused = p.On, a.config.Playbooks.Paused(p.Name)
	}
	return out
}

func viewSteps(steps []playbook.Step) []PlaybookStep {
	out := make([]PlaybookStep, len(steps))
	for i := range steps {
		s := &steps[i]
		out[i] = PlaybookStep{Name: s.Name, After: playbook.Before(steps, i), If: s.If}
		if s.Do != nil { // else there is a mistake in it
			out[i].Kind, out[i].Does = s.Do.Kind(), playbook.Describe(s.Do)
		}
		if s.Not {
			out[i].If = "not " + s.If
		}
	}
	return out
}

func (a *API) startRun(ctx context.Context, in *startRunInput) (runNumber, error) {
	id, err := a.config.Playbooks.Start(ctx, in.Name, in.Body.Device)
	if err == nil {
		a.logChange(ctx, "playbook run", "name", in.Name, "device", in.Body.Device, "run", id)
	}
	return runNumber{id}, err
}

func (a *API) listRuns(ctx context.Context, in *runsInput) (runPage, error) {
	filter := playbook.RunFilter{Playbook: in.Playbook, Subject: in.Subject, Before: in.Before}
	if state, ok := playbook.RunStateOf(in.State); ok {
		filter.States = []playbook.RunState{state}
	}
	runs, err := a.config.Playbooks.List(ctx, filter, in.Limit)
	return runPage{mapped(runs, viewRun), nextPage(runs, in.Limit, func(r *playbook.Run) uint64 { return r.ID })}, err
}

func viewRun(r *playbook.Run) Run {
	return Run{
		Run: r.ID, Playbook: r.Playbook, Subject: r.Subject, Event: r.Event, State: r.State.String(), Diverted: r.Diverted,
		Started: utc(r.Started), Ended: utc(r.Ended), Wake: utc(r.Wake), Error: r.Error,
	}
}

func (a *API) getRun(ctx context.Context, in *oneRunInput) (RunDetails, error) {
	run, steps, err := a.config.Playbooks.Show(ctx, in.Run)
	if err != nil {
		return RunDetails{}, err
	}
	return RunDetails{viewRun(&run), a.runSteps(&run, steps)}, nil
}

// runSteps returns the steps of a run: those that its playbook has now, and started ones that it
// does not have any more.
func (a *API) runSteps(run *playbook.Run, begun []playbook.RunStep) []RunStep {
	known := make(map[string]*playbook.RunStep, len(begun))
	for i := range begun {
		known[begun[i].Step] = &begun[i]
	}
	var out []RunStep
	add := func(steps []playbook.Step) {
		skipped := playbook.Skipped(steps, func(step string) (s playbook.RunStep) {
			if known[step] != nil {
				s = *known[step]
			}
			return s
		})
		for _, view := range viewSteps(steps) {
			s := RunStep{PlaybookStep: view, State: playbook.StepPending.String()}
			if skipped[s.Name] {
				s.State = "skipped"
			}
			out = append(out, s)
		}
	}
	if p, err := a.config.Playbooks.Playbook(run.Playbook); err == nil {
		if add(p.Steps); run.Diverted {
			add(p.Recovered)
		}
	}
	for i := range begun {
		at := slices.IndexFunc(out, func(s RunStep) bool { return s.Name == begun[i].Step })
		if at < 0 {
			at = len(out)
			out = append(out, RunStep{PlaybookStep: PlaybookStep{Name: begun[i].Step}})
		}
		out[at].begin(&begun[i])
	}
	for i := range out {
		open := out[i].State == playbook.StepPending.String() || out[i].State == playbook.StepWaiting.String()
		if open && run.State.Final() {
			out[i].State, out[i].Wake = "canceled", time.Time{}
		}
	}
	return out
}

// begin fills in the state of a step that has started.
func (s *RunStep) begin(from *playbook.RunStep) {
	s.State, s.Attempts, s.Output, s.Error = from.State.String(), from.Attempts, from.Output, from.Error
	s.Started, s.Ended, s.Wake = utc(from.Started), utc(from.Ended), utc(from.Wake)
	if s.Kind == (playbook.Condition{}).Kind() && from.State == playbook.StepDone {
		s.Holds = &from.Holds
	}
}

func (a *API) cancelRun(ctx context.Context, in *oneRunInput) error {
	why := "through the API"
	if token := tokenOf(ctx).Name; token != "" {
		why += ", by token " + token
	}
	if err := a.config.Playbooks.Cancel(ctx, in.Run, why); err != nil {
		return err
	}
	a.logChange(ctx, "run canceled", "run", in.Run)
	return nil
}
