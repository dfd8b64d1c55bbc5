package wording

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/liveness"
)

// The severities of a notification.
const (
	Firing   = "firing"   // somebody should look
	Resolved = "resolved" // nobody has to look any more
	Info     = "info"     // neither
)

// The types of notifications that report no event.
const (
	Job  = "job"  // a job with a body, of a playbook or an application
	Test = "test" // a test of the endpoint
)

// Notification is what templates are executed with. Fields that mean nothing for its Type are empty.
type Notification struct {
	// Type is the type of the event, such as device.offline; job for a job, and test.
	Type string
	// Severity is [Firing], [Resolved] or [Info]; of several together Firing if one is, and Resolved if all
	// are.
	Severity string
	// Key stands for what the notification is about: the device, source/NAME or group/NAME. What fires
	// and what resolves it have the same.
	Key    string
	Device string
	Group  string
	Source string
	Reason string // of an offline device: silence, bye and so on
	State  string // of the device after the event, where the event says it
	// Time and LastSeen, the device's last sign of life, are in UTC: 2006-01-02 15:04:05 UTC.
	Time     string
	LastSeen string
	// HeardSilence is the listening time since LastSeen, Timeout the silence after which the device is
	// offline, OfflineFor how long it was offline when it is back, Deaf how long a source was.
	HeardSilence Duration
	Timeout      Duration
	OfflineFor   Duration
	Deaf         Duration
	// Members are those of a group, Silent are those of them that are offline without a goodbye, Before
	// those that were so before the outage.
	Members int
	Silent  int
	Before  int
	Message string // the failure that a device reported, the maintenance window, or the text of a job
	Policy  string
	Node    string
	URL     string // of the device, the groups or the sources in the console, if the endpoint has its address
	// Flapping, Maintenance and Outage are as in the event. An event with one of the latter two is
	// suppressed: it reaches only routes that take those, too.
	Flapping    bool
	Maintenance bool
	Outage      bool
	// Count is how many notifications there are, and List has them. A single one has itself.
	Count int
	List  []*Notification

	title string // of a job that has one
}

// Duration is a duration that is written without what is too small to matter: 3h2m, 45s.
type Duration time.Duration

func (d Duration) String() string {
	unit := time.Second
	switch {
	case d < Duration(10*time.Second):
		unit = 100 * time.Millisecond
	case d >= Duration(time.Hour):
		unit = time.Minute
	}
	return duration.String(time.Duration(d).Round(unit))
}

// Seconds returns the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// Suppressed reports whether the event is not to raise an alarm.
func (n *Notification) Suppressed() bool { return n.Maintenance || n.Outage }

// Of returns the notification of a message. console is the address of the console, empty if there is
// none.
func Of(m *sink.Message, console string) *Notification {
	var n *Notification
	if m.Event != nil {
		n = ofEvent(m.Event, console)
	} else {
		n = ofJob(m)
	}
	n.Count, n.List = 1, []*Notification{n}
	return n
}

// ofEvent returns the notification of an event.
func ofEvent(e *liveness.Event, console string) *Notification {
	n := &Notification{
		Type: e.Type.String(), Severity: severityOf(e), Group: line(e.Group), Source: line(e.Source), Reason: e.Reason.String(), State: stateOf(e),
		Time: instant(e.Time), LastSeen: instant(e.LastSeen), HeardSilence: Duration(e.HeardSilence), OfflineFor: Duration(e.OfflineFor), Deaf: Duration(e.Deaf),
		Members: e.Members, Silent: e.Silent, Before: e.Before, Message: line(e.Message), Policy: line(e.Policy), Node: line(e.Node),
		Flapping: e.Flapping, Maintenance: e.Maintenance, Outage: e.Outage,
	}
	id := e.ID()
	n.Key = strings.ReplaceAll(clean(id[:strings.LastIndexByte(id, ':')]), "\n", " ") // blanks stay: they make another device
	if e.Timeout < liveness.Never {
		n.Timeout = Duration(e.Timeout)
	}
	page := "sources"
	switch e.Type {
	case liveness.SourceDeaf, liveness.SourceHeard:
	case liveness.GroupOutageStarted, liveness.GroupOutageEnded:
		page = "groups"
	default:
		n.Device = line(e.Subject)
		page = pageOf(e.Subject)
	}
	if console != "" {
		n.URL = console + "/console/" + page
	}
	return n
}

// pageOf returns the page of a device. A browser takes the segments . and .. for steps between pages.
func pageOf(device string) string {
	if device == "." || device == ".." {
		return "devices?prefix=" + device
	}
	return "devices/" + url.PathEscape(device)
}

func severityOf(e *liveness.Event) string {
	switch e.Type {
	case liveness.DeviceLate, liveness.DeviceOffline, liveness.DeviceFailed, liveness.SourceDeaf, liveness.GroupOutageStarted:
		return Firing
	case liveness.DeviceMaintenanceStopped:
		if e.Reason != liveness.NoReason { // it went offline before or meanwhile
			return Firing
		}
		return Resolved
	case liveness.DeviceOnline, liveness.DeviceSleeping, liveness.DeviceForgotten, liveness.DeviceMaintenanceStarted, liveness.SourceHeard, liveness.GroupOutageEnded:
		return Resolved
	case liveness.DeviceSessionReplaced, liveness.DeviceFlappingStarted, liveness.DeviceFlappingStopped, liveness.DeviceChanged,
		liveness.DeviceRunStarted, liveness.DeviceRunFinished:
	}
	return Info
}

func stateOf(e *liveness.Event) string {
	switch e.Type {
	case liveness.DeviceOnline:
		return liveness.Online.String()
	case liveness.DeviceLate:
		return liveness.Late.String()
	case liveness.DeviceSleeping:
		return liveness.Sleeping.String()
	default:
	}
	if e.Reason != liveness.NoReason {
		return liveness.Offline.String()
	}
	return ""
}

// ofJob returns the notification of a job. A body that is a JSON object may have text, title, device and
// severity; of any other body the text is the body itself.
func ofJob(m *sink.Message) *Notification {
	var body struct {
		Text, Title, Device, Severity string
		Test                          bool
	}
	n := &Notification{Type: Job, Severity: Info, Key: line(m.Key)}
	if json.Unmarshal(m.Data, &body) != nil || body.Text == "" && body.Title == "" {
		n.Message = line(string(m.Data[:min(len(m.Data), maxMessage)]))
		return n
	}
	if body.Test {
		n.Type, n.Key = Test, "holter test"
	}
	n.Message, n.title = line(body.Text), line(body.Title)
	if body.Device != "" {
		n.Device, n.Key = line(body.Device), line(body.Device)
	}
	if body.Severity == Firing || body.Severity == Resolved {
		n.Severity = body.Severity
	}
	return n
}

// maxMessage is how many bytes of a body without a text are told.
const maxMessage = 4096

// line returns a text as one line: without control characters, and without those that change the
// direction of what follows.
func line(text string) string {
	return strings.Join(strings.Fields(clean(text)), " ")
}

// clean removes from a text what can be seen nowhere, but for line ends.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', r == '\r', r == '\v', r == '\f', r == '\u2028', r == '\u2029', r == '\u0085':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

// Together returns one notification of several.
func Together(list []*Notification) *Notification {
	if len(list) == 1 {
		return list[0]
	}
	n := &Notification{Type: list[0].Type, Severity: Resolved, Count: len(list), List: list}
	for _, one := range list {
		if one.Type != n.Type {
			n.Type = ""
		}
		switch {
		case one.Severity == Firing:
			n.Severity = Firing
		case one.Severity == Info && n.Severity == Resolved:
			n.Severity = Info
		}
	}
	return n
}

// Samples returns a notification of each type, and several together.
func Samples() []*Notification {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	var samples []*Notification
	for t := range liveness.Type(math.MaxUint8) {
		if t.String() == "invalid" {
			break
		}
		e := liveness.Event{Type: t, Subject: "pump-3", Seq: 7, Epoch: 1, Time: at, Source: "line", Group: "pumps", Policy: "default", Node: "a"}
		if t.OfDevice() {
			e.LastSeen, e.Deadline, e.HeardSilence, e.Timeout = at.Add(-5*time.Minute), at, 5*time.Minute, 5*time.Minute
		}
		switch t {
		case liveness.DeviceOffline:
			e.Reason = liveness.Silence
		case liveness.DeviceOnline:
			e.OfflineFor = 3*time.Hour + 2*time.Minute
		case liveness.DeviceFailed:
			e.Message = "bearing too hot"
		case liveness.SourceHeard:
			e.Deaf, e.Members = time.Minute, 20
		case liveness.GroupOutageStarted, liveness.GroupOutageEnded:
			e.Members, e.Silent, e.Before = 20, 12, 1
		default:
		}
		samples = append(samples, Of(&sink.Message{ID: e.ID(), Key: e.Subject, Event: &e}, "https://holter.example"))
	}
	samples = append(samples,
		Of(&sink.Message{ID: "1", Data: []byte(`{"title":"Look","text":"pump-3 is offline","device":"pump-3","severity":"firing"}`)}, ""),
		Of(&sink.Message{ID: "2", Data: []byte(`{"text":"A test","test":true}`)}, ""))
	return append(samples, Together(samples[:3]), Together(samples))
}

// Console returns the address of the console, without a slash at its end, from the one that people reach it
// by; empty for none.
func Console(address string) (string, error) {
	short := strings.TrimSuffix(strings.TrimSuffix(address, "/"), "/console")
	u, err := url.Parse(short)
	if short == "" && address == "" {
		return "", nil
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(short) > maxConsole {
		return "", fmt.Errorf("console is %.200q; want the address at which people reach it, such as https://holter.example", address)
	}
	return short, nil
}

const maxConsole = 500
