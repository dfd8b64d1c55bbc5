package httpapi

import (
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// Event is an event in the JSON format of CloudEvents 1.0.
type Event = cloudevent.Event

// EventData is the data of an event.
type EventData = cloudevent.EventData

func (a *API) eventOf(e *liveness.Event) Event { return cloudevent.New(e, a.config.Node) }
