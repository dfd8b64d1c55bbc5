// Package cloudevent writes the events of package liveness as CloudEvents 1.0 in the JSON format
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md). The API,
// its event stream and all deliveries use this form.
package cloudevent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// ContentType is the media type of an event in structured content mode; that of an array of them is
// BatchContentType.
const (
	ContentType      = "application/cloudevents+json"
	BatchContentType = "application/cloudevents-batch+json"
)

// Event is an event in the JSON format of CloudEvents 1.0.
type Event struct {
	SpecVersion     string    `json:"specversion" enum:"1.0"`
	ID              string    `json:"id" doc:"DEVICE:SEQ, source/NAME:SEQ or group/NAME:SEQ; device/DEVICE:SEQ for a device whose id begins like one of these."`
	Source          string    `json:"source" format:"uri-reference" doc:"/holter/NODE/SOURCE"`
	Type            string    `json:"type" doc:"io.holter.device.online and so on."`
	Subject         string    `json:"subject" doc:"The device, source or group."`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype" enum:"application/json"`
	Data            EventData `json:"data"`
}

// EventData is the content of an event. Fields that mean nothing for its type are left out.
type EventData struct {
	Offset      uint64    `json:"offset" doc:"Its position in the log."`
	Seq         uint64    `json:"seq" doc:"Its number among the subject's events, without gaps; apply an event if its number is greater than the last."`
	Epoch       uint64    `json:"epoch,omitempty" doc:"The number of the device's session that the event belongs to."`
	Reason      string    `json:"reason,omitempty" enum:"silence,bye,closed,protocol,will,admin,reported"`
	LastSeen    time.Time `json:"last_seen,omitzero" doc:"The device's last sign of life."`
	Deadline    time.Time `json:"deadline,omitzero" doc:"When it is judged offline if it is not heard."`
	DecidedAt   time.Time `json:"decided_at"`
	Silence     *float64  `json:"heard_silence_ms,omitempty"`
	Timeout     *float64  `json:"timeout_ms,omitempty" doc:"The heard silence after which the device is offline; left out if silence means nothing."`
	OfflineFor  *float64  `json:"offline_ms,omitempty" doc:"Of the event by which an offline device is back: how long it was offline."`
	Policy      string    `json:"policy,omitempty" doc:"The rule that set the timeout."`
	Source      string    `json:"source,omitempty"`
	Group       string    `json:"group,omitempty"`
	Node        string    `json:"node" doc:"The server that recorded the event."`
	Term        int64     `json:"term,omitempty" doc:"The term of that server as the judge: a number that grows with each server that judges the fleet."`
	Message     string    `json:"message,omitempty" doc:"The failure that the device reported, the end of what a run printed, or the maintenance window that began or ended."`
	ExitStatus  int       `json:"exit_status,omitempty" doc:"Of a run that failed."`
	Duration    *float64  `json:"duration_ms,omitempty" doc:"How long a run took that ended."`
	Flapping    bool      `json:"flapping,omitempty"`
	Maintenance bool      `json:"maintenance,omitempty" doc:"The device is in maintenance: the event is not to raise an alarm."`
	Outage      bool      `json:"outage,omitempty" doc:"It belongs to an outage of its group, whose event replaces it in alarms."`
	Deaf        *float64  `json:"deaf_ms,omitempty"`
	Members     *int      `json:"members,omitempty" doc:"Of the group; of a source, the devices whose heartbeats are waited for there."`
	Silent      *int      `json:"silent,omitempty" doc:"Of the group's members, those that are offline without a goodbye."`
	Before      *int      `json:"before,omitempty" doc:"Of the silent, those that were offline before the outage."`
}

// New returns an event as JSON has it. node is the process that recorded it, if the event does not name
// one. It costs some allocations.
func New(e *liveness.Event, node string) Event {
	node = cmp.Or(e.Node, node)
	source := "/holter/" + url.PathEscape(node)
	if e.Source != "" {
		source += "/" + url.PathEscape(e.Source)
	}
	out := Event{
		SpecVersion: "1.0", ID: e.ID(), Source: source, Type: "io.holter." + e.Type.String(), Subject: e.Subject,
		Time: utc(e.Time), DataContentType: "application/json",
		Data: EventData{
			Offset: e.Offset, Seq: e.Seq, Epoch: e.Epoch, Reason: e.Reason.String(), DecidedAt: utc(e.Time), Policy: e.Policy,
			Source: e.Source, Group: e.Group, Node: node, Term: e.Term, Message: e.Message, Flapping: e.Flapping, Maintenance: e.Maintenance, Outage: e.Outage,
		},
	}
	switch d := &out.Data; e.Type {
	case liveness.SourceDeaf, liveness.SourceHeard:
		d.Deaf, d.Members = new(milliseconds(e.Deaf)), new(e.Members)
	case liveness.GroupOutageStarted, liveness.GroupOutageEnded:
		d.Members, d.Silent, d.Before = new(e.Members), new(e.Silent), new(e.Before)
	default:
		d.LastSeen, d.Deadline = utc(e.LastSeen), utc(e.Deadline)
		d.Silence = new(milliseconds(e.HeardSilence))
		if e.Timeout < liveness.Never {
			d.Timeout = new(milliseconds(e.Timeout))
		}
		if e.OfflineFor > 0 {
			d.OfflineFor = new(milliseconds(e.OfflineFor))
		}
		if d.ExitStatus = e.ExitStatus; e.Duration > 0 {
			d.Duration = new(milliseconds(e.Duration))
		}
	}
	return out
}

// Parse returns the event that text contains, without its Record. It is the inverse of writing what
// [New] returns as JSON, except that durations are rounded to their milliseconds' precision. It
// fails for text that is no event of this form.
func Parse(text []byte) (*liveness.Event, error) {
	var in Event
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("cloudevent: %w", err)
	}
	kind, ok := named[liveness.Type](strings.TrimPrefix(in.Type, "io.holter."))
	reason, known := named[liveness.Reason](in.Data.Reason)
	if !ok || !known {
		return nil, fmt.Errorf("cloudevent: type %.40q, reason %.40q: there is no such event", in.Type, in.Data.Reason)
	}
	d := &in.Data
	timeout := duration(d.Timeout)
	if d.Timeout == nil && d.Silence != nil { // only events of devices have either
		timeout = liveness.Never
	}
	return &liveness.Event{
		Offset: d.Offset, Type: kind, Reason: reason, Subject: in.Subject, Seq: d.Seq, Epoch: d.Epoch, Time: in.Time, Source: d.Source,
		LastSeen: d.LastSeen, Deadline: d.Deadline, HeardSilence: duration(d.Silence), Timeout: timeout, OfflineFor: duration(d.OfflineFor), Policy: d.Policy, Group: d.Group, Node: d.Node, Term: d.Term,
		Message: d.Message, ExitStatus: d.ExitStatus, Duration: duration(d.Duration), Flapping: d.Flapping, Maintenance: d.Maintenance, Outage: d.Outage, Deaf: duration(d.Deaf),
		Members: value(d.Members), Silent: value(d.Silent), Before: value(d.Before),
	}, nil
}

// named returns the value with a name.
func named[T interface {
	~uint8
	String() string
}](name string,
) (T, bool) {
	for v := range T(64) {
		if v.String() == name && name != "invalid" {
			return v, true
		}
	}
	return 0, false
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func duration(ms *float64) time.Duration {
	return time.Duration(math.Round(value(ms) * float64(time.Millisecond)))
}

// milliseconds returns a duration without loss up to some 100 days, and to a microsecond far
// beyond.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
