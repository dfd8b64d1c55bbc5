package score

import (
	"context"
	"errors"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Log is a [Follower] of a registry in this process, by the log that is its sink. Its clock is that of this process.
type Log struct {
	events *eventlog.Log
}

// NewLog returns a follower of a log.
func NewLog(events *eventlog.Log) *Log { return &Log{events} }

// Follow implements [Follower]. It fails if the log drops events before they are read.
func (l *Log) Follow(ctx context.Context, tell func(Verdict)) error {
	_, place := l.events.Bounds()
	tell(Verdict{Kind: Following, Offset: place, Full: true, Seen: time.Now()})
	var events []liveness.Event
	for {
		var err error
		events, err = l.events.Wait(ctx, events[:0], place, 1000)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		if errors.Is(err, eventlog.ErrMissed) {
			return err
		}
		for i := range events {
			place = events[i].Offset
			if v, ok := verdictOf(&events[i]); ok {
				v.Seen = time.Now()
				tell(v)
			}
		}
	}
}

// verdictOf turns an event into a verdict; false if it is about a group.
func verdictOf(e *liveness.Event) (Verdict, bool) {
	v := Verdict{
		ID: e.ID(), Source: e.Source, Device: e.Subject, Kind: kindOf(e.Type.String()), Reason: e.Reason.String(), Seq: e.Seq, Epoch: e.Epoch,
		Offset: e.Offset, Time: e.Time, Deadline: e.Deadline, LastSeen: e.LastSeen, HeardSilence: e.HeardSilence, Timeout: e.Timeout,
	}
	switch e.Type { //nolint:exhaustive // the others are of devices
	case liveness.SourceDeaf, liveness.SourceHeard:
		v.Device, v.Source, v.Deaf = "", e.Subject, e.Deaf
	case liveness.GroupOutageStarted, liveness.GroupOutageEnded:
		return Verdict{}, false
	}
	return v, true
}
