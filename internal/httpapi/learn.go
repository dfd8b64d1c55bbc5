package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/liveness"
)

// Learned is the deadline that was learned of a device, and what it rests on.
type Learned struct {
	ID       string   `json:"id,omitempty" doc:"The device's id; left out within the device."`
	Group    string   `json:"group,omitempty" doc:"Its group; left out within the device."`
	Mode     string   `json:"mode" enum:"off,suggest,apply" doc:"What is done with it: off, suggest or apply."`
	Budget   float64  `json:"budget" doc:"False alarms of the device that are accepted in a month of 30 days."`
	Timeout  Timeout  `json:"timeout_ms" doc:"In force now."`
	From     string   `json:"from" doc:"The rule that sets the timeout; learned if it was learned."`
	Without  Timeout  `json:"without_ms" doc:"The timeout if none was learned."`
	Deadline *float64 `json:"deadline_ms" doc:"What was learned, within its bounds; null if too little is known, or nothing is learned of the device."`
	Interval float64  `json:"interval_ms" doc:"The usual time between two heartbeats: the median; 0 if it is not known."`
	Longest  float64  `json:"longest_ms" doc:"The longest time between two heartbeats of late, to within 2 %."`
	Gaps     int      `json:"gaps" doc:"How many times between two heartbeats were learned; about, beyond 200."`
	Peers    float64  `json:"peers_ms" doc:"What devices like it exceed as often as the budget says."`
	PeerGaps uint64   `json:"peer_gaps" doc:"From how many of their times between two heartbeats that is known."`
	Known    bool     `json:"known" doc:"Enough of them were seen to know what is exceeded as seldom as the budget says. Until then no deadline is lowered by itself."`
	Sentence string   `json:"sentence" doc:"All of this in a sentence."`

	Change *replay.Change `json:"change,omitempty" doc:"What the learned deadline would have changed in the last 30 days, if that was asked for, one was learned, and silences are recorded."`
}

type learnInput struct {
	Group   string `query:"group" doc:"Only devices of this group."`
	Changes bool   `query:"changes" doc:"Also say what each learned deadline would have changed in the last 30 days. That reads the recorded silences, and may take seconds."`

	After string `query:"after" doc:"Where to continue: next of the previous page. Left out: from the beginning."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
}

type learnPage struct {
	Devices []Learned `json:"devices"`
	Next    string    `json:"next,omitempty" doc:"Value of after for the next page; left out on the last page."`
}

func (a *API) registerLearn(api huma.API) {
	const missing, conflict = http.StatusNotFound, http.StatusConflict
	serve(a, api, operation("devices", "list-learned", "GET /v1/learn", "Deadlines that were learned, page by page",
		"Of each device: which timeout fits it, and why. A page may be short or empty although more follow: continue while there is a next.", missing), a.learn)
	serve(a, api, operation("devices", "get-learned", "GET /v1/devices/{id}/learned", "The deadline that was learned of a device",
		"What it rests on, in figures and in a sentence; or why there is none.", missing), a.learnedOne)
	serve(a, api, operation("administration", "apply-learned", "PUT /v1/devices/{id}/learned", "Put the deadline that was learned of a device in force",
		"It stays as it is, also after a restart, until it is applied again or taken back; with the mode apply it follows what is learned. "+
			"409: nothing was learned, or the device has a timeout of its own.", missing, conflict), func(ctx context.Context, in *deviceInput) (Learned, error) {
		return a.applyLearned(ctx, in.ID, true)
	})
	serve(a, api, operation("administration", "remove-learned", "DELETE /v1/devices/{id}/learned", "Take a learned deadline back",
		"The timeout of the device's other rules is in force again. With the mode apply it comes back by itself.", missing), func(ctx context.Context, in *deviceInput) (Learned, error) {
		return a.applyLearned(ctx, in.ID, false)
	})
}

func (a *API) learn(ctx context.Context, in *learnInput) (page learnPage, err error) {
	cursor, err := a.decodeCursor(in.After)
	if err != nil {
		return page, err
	}
	if in.Group != "" && !a.hasGroup(in.Group) {
		return page, huma.Error404NotFound(unknownGroup)
	}
	page.Devices = make([]Learned, 0, in.Limit)
	var all []liveness.Learned
	for scanned := 0; scanned < maxScan; {
		left := in.Limit - len(page.Devices)
		all, cursor = a.registry.ListLearned(all[:0], in.Group, cursor, left)
		for i := range all {
			page.Devices = append(page.Devices, learnedOf(&all[i]))
		}
		if scanned += left; cursor == 0 || len(page.Devices) == in.Limit {
			break
		}
	}
	page.Next = a.encodeCursor(cursor)
	if in.Changes {
		err = a.addChanges(ctx, page.Devices)
	}
	return page, err
}

// changesOver is the window of what learned deadlines would have changed.
const changesOver = 30 * 24 * time.Hour

// addChanges adds what the learned deadlines would have changed, as far as silences are recorded.
func (a *API) addChanges(ctx context.Context, devices []Learned) error {
	var ids []string
	for i := range devices {
		if devices[i].Deadline != nil {
			ids = append(ids, devices[i].ID)
		}
	}
	if len(ids) == 0 || a.config.Replay == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	changes, err := a.config.Replay.Changes(ctx, ids, changesOver, a.now())
	if err != nil && !errors.Is(err, replay.ErrBad) { // nothing is recorded yet
		return replayError(err)
	}
	for i := range devices {
		if c, ok := changes[devices[i].ID]; ok {
			devices[i].Change = &c
		}
	}
	return nil
}

func (a *API) learnedOne(_ context.Context, in *deviceInput) (Learned, error) {
	v, err := a.registry.Learned(in.ID)
	if err != nil {
		return Learned{}, huma.Error404NotFound(unknownDevice)
	}
	return learnedOf(&v), nil
}

func (a *API) applyLearned(ctx context.Context, id string, on bool) (Learned, error) {
	v, err := a.registry.ApplyLearned(id, on)
	if errors.Is(err, liveness.ErrNotLearned) {
		return Learned{}, huma.Error409Conflict(v.Sentence())
	}
	done := "learned deadline applied"
	if !on {
		done = "learned deadline taken back"
	}
	if err := a.change(ctx, done, id, err); err != nil {
		return Learned{}, err
	}
	return learnedOf(&v), nil
}

func learnedOf(v *liveness.Learned) Learned {
	l := Learned{
		ID: v.ID, Group: v.Group, Mode: v.Policy.Learn.String(), Budget: v.Policy.LearnBudget,
		Timeout: timeoutOf(v.Policy.Timeout), From: v.From, Without: timeoutOf(v.Without),
		Interval: milliseconds(v.Basis.Interval), Longest: milliseconds(v.Basis.Longest), Gaps: v.Basis.Gaps,
		Peers: milliseconds(v.Basis.Peers), PeerGaps: v.Basis.PeerGaps, Known: v.Known, Sentence: v.Sentence(),
	}
	if v.Deadline != 0 && !v.Fixed {
		ms := milliseconds(v.Deadline)
		l.Deadline = &ms
	}
	return l
}
