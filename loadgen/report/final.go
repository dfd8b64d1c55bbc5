package report

import (
	"encoding/json"
	"strings"
	"time"
)

// Schema names what report.json looks like. The number rises when a field changes its meaning or
// goes; new fields may come without.
const Schema = schemaName + "2"

const schemaName = "holter.loadgen.report/"

// Run is what is known of a run from its beginning.
type Run struct {
	// Tool is the program and its version, Command how it was called, without secrets.
	Tool    string    `json:"tool"`
	Command string    `json:"command"`
	Began   time.Time `json:"began"`
	Host    Host      `json:"host"`
	Fleet   Fleet     `json:"fleet"`
}

// Host is the machine that the generator ran on.
type Host struct {
	Name   string `json:"name,omitempty"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory"`
	Go     string `json:"go"`
}

// Final is a run that is over, to its end or not.
type Final struct {
	Run

	Ended   time.Time `json:"ended"`
	Samples []Sample  `json:"samples"`

	// Of the whole run; see [Sample].
	RTT        Distribution `json:"rtt"`
	RTTPlanned Distribution `json:"rtt_planned"`
	Lateness   Distribution `json:"lateness"`
	Connect    Distribution `json:"connect"`

	// Verdicts is nil if nobody followed them.
	Verdicts *Verdicts `json:"verdicts,omitempty"`
	// Hits are the limits of the machine or of the target that the run has met, with what shows it.
	Hits    []Hit   `json:"limits_hit"`
	Outcome Outcome `json:"outcome"`
}

// Verdicts compares what was said of the devices with what was done to them.
type Verdicts struct {
	// From is where they were read.
	From  []string `json:"from"`
	Right uint64   `json:"right"`
	// Unjudged counts verdicts on devices whose worker had died, so that nobody knows whether they
	// are right; UnjudgedDevices is how many devices that are.
	Unjudged        uint64 `json:"unjudged"`
	UnjudgedDevices int    `json:"unjudged_devices"`
	// Excused counts verdicts that are neither right nor wrong: on devices that sleep, stall or
	// could not get in.
	Excused uint64 `json:"excused"`
	// Deaf is for how long those who judge said that they heard nothing.
	Deaf Deaf `json:"deaf"`
	// Clocks are those that verdicts are stamped with.
	Clocks []Clock `json:"clocks,omitempty"`
	// NotChecked says what could not be checked, a sentence each.
	NotChecked []string `json:"not_checked,omitempty"`
	// Mistakes of all kinds that were looked for, those that did not happen too.
	Mistakes []Mistake `json:"mistakes"`
	// Detection is how long after its deadline a right verdict was here; Decided how long after it
	// the verdict was decided, by what is said of that. The 99th percentile of Detection may be
	// DetectionAllowed; 0: not checked.
	Detection        Distribution  `json:"detection"`
	Decided          Distribution  `json:"decided"`
	DetectionAllowed time.Duration `json:"-"`
}

// Deaf is for how long sources said that they were deaf.
type Deaf struct {
	Count int `json:"count"`
	// Allowed is how long Total may be; below 0: for any time.
	Total, Longest, Allowed time.Duration `json:"-"`
	// Still are those that were deaf at the end.
	Still []string `json:"still,omitempty"`
}

// Held reports whether it was not longer than allowed, and is over.
func (d Deaf) Held() bool { return len(d.Still) == 0 && (d.Allowed < 0 || d.Total <= d.Allowed) }

// Clock is a clock that verdicts are stamped with, compared with the generator's.
type Clock struct {
	From string `json:"from"`
	// Measured says that it was measured, Set that somebody said how it is. If neither is so it is
	// taken to be the same.
	Measured bool `json:"measured"`
	Set      bool `json:"set"`
	// Skew is by how much it is ahead, Error by how much that may be wrong. Least and Most are what
	// Skew was in the course of time.
	Skew, Error, Least, Most time.Duration `json:"-"`
}

// Mistake is a kind of mistake.
type Mistake struct {
	// Name has a few words: "false offline"; Meaning is a sentence.
	Name    string `json:"name"`
	Meaning string `json:"meaning,omitempty"`
	Count   uint64 `json:"count"`
	// Allowed is how many of them let the run pass; below 0: not checked.
	Allowed int `json:"allowed"`
	// Of is the kind that it is a part of, and counted as.
	Of string `json:"of,omitempty"`
	// Unchecked says that it cannot be seen whether there are any.
	Unchecked bool      `json:"unchecked,omitempty"`
	Examples  []Example `json:"examples,omitempty"`
}

// Held says that there were not more than allowed.
func (m Mistake) Held() bool { return m.Allowed < 0 || m.Count <= uint64(m.Allowed) }

// None reports whether there are none, as far as anybody can see, and that may be so.
func (m Mistake) None() bool { return m.Count == 0 && m.Held() }

// None are the kinds of mistakes that were looked for, and that there are none of.
func (v *Verdicts) None() []Mistake {
	var none []Mistake
	for _, m := range v.Mistakes {
		if m.None() && !m.Unchecked && m.Of == "" {
			none = append(none, m)
		}
	}
	return none
}

// Example is one mistake, for a person to look up.
type Example struct {
	Device string    `json:"device"`
	At     time.Time `json:"at,omitzero"`
	// Done is what was done to the device, Said what was said of it.
	Done string `json:"done"`
	Said string `json:"said"`
}

// Timed reports whether the example has an instant that Said does not have.
func (e Example) Timed() bool {
	return !e.At.IsZero() && !strings.Contains(e.Said, e.At.UTC().Format("15:04:05"))
}

// Hit is a limit that was hit.
type Hit struct {
	Limit    string        `json:"limit"`
	Evidence string        `json:"evidence"`
	Mend     string        `json:"mend,omitempty"` // what to do, a command if there is one
	At       time.Duration `json:"-"`              // since the run began; 0: unknown
}

// Outcome is how a run ended.
type Outcome struct {
	Passed bool `json:"passed"`
	// Status is the exit status of the program.
	Status int `json:"status"`
	// Reasons say why it did not pass, or was broken off; the first one first.
	Reasons []string `json:"reasons"`
}

// Duration is how long the run took.
func (f *Final) Duration() time.Duration { return f.Ended.Sub(f.Began) }

// last returns the last sample, or one with zeros.
func (f *Final) last() *Sample {
	if len(f.Samples) == 0 {
		return &Sample{}
	}
	return &f.Samples[len(f.Samples)-1]
}

// schemaJSON is embedded, and not a field, so that it comes first.
type schemaJSON struct {
	Schema string `json:"schema"`
}

type plainFinal Final

type finalJSON struct {
	schemaJSON
	*plainFinal

	Took    float64  `json:"took_s"`
	Stages  []Span   `json:"stages"`
	Trouble *Trouble `json:"first_trouble,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (f Final) MarshalJSON() ([]byte, error) { return json.Marshal(f.wire()) }

func (f *Final) wire() finalJSON {
	one := *f
	if one.Samples == nil {
		one.Samples = []Sample{}
	}
	if one.Hits == nil {
		one.Hits = []Hit{}
	}
	if one.Outcome.Reasons == nil {
		one.Outcome.Reasons = []string{}
	}
	return finalJSON{
		schemaJSON: schemaJSON{Schema}, plainFinal: (*plainFinal)(&one), Took: f.Duration().Seconds(), Stages: Spans(f.Samples), Trouble: FirstTrouble(f),
	}
}

// UnmarshalJSON implements [json.Unmarshaler]. What follows from the rest is not read.
func (f *Final) UnmarshalJSON(b []byte) error {
	w := finalJSON{plainFinal: (*plainFinal)(f)}
	return json.Unmarshal(b, &w)
}

type plainVerdicts Verdicts

type verdictsJSON struct {
	*plainVerdicts

	DetectionAllowed float64 `json:"detection_p99_allowed_ms,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (v Verdicts) MarshalJSON() ([]byte, error) {
	return json.Marshal(verdictsJSON{(*plainVerdicts)(&v), millis(v.DetectionAllowed)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Verdicts) UnmarshalJSON(b []byte) error {
	w := verdictsJSON{plainVerdicts: (*plainVerdicts)(v)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	v.DetectionAllowed = ofMillis(w.DetectionAllowed)
	return nil
}

type plainHit Hit

type hitJSON struct {
	*plainHit

	At float64 `json:"at_s,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (h Hit) MarshalJSON() ([]byte, error) {
	return json.Marshal(hitJSON{(*plainHit)(&h), h.At.Seconds()})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Hit) UnmarshalJSON(b []byte) error {
	w := hitJSON{plainHit: (*plainHit)(h)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	h.At = ofSeconds(w.At)
	return nil
}

type plainDeaf Deaf

type deafJSON struct {
	*plainDeaf

	Total   float64 `json:"total_ms"`
	Longest float64 `json:"longest_ms"`
	Allowed float64 `json:"allowed_ms"`
}

// MarshalJSON implements [json.Marshaler].
func (d Deaf) MarshalJSON() ([]byte, error) {
	return json.Marshal(deafJSON{(*plainDeaf)(&d), millis(d.Total), millis(d.Longest), millis(d.Allowed)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Deaf) UnmarshalJSON(b []byte) error {
	w := deafJSON{plainDeaf: (*plainDeaf)(d)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	d.Total, d.Longest, d.Allowed = ofMillis(w.Total), ofMillis(w.Longest), ofMillis(w.Allowed)
	return nil
}

type plainClock Clock

type clockJSON struct {
	*plainClock

	Skew  float64 `json:"skew_ms"`
	Error float64 `json:"error_ms"`
	Least float64 `json:"least_ms"`
	Most  float64 `json:"most_ms"`
}

// MarshalJSON implements [json.Marshaler].
func (c Clock) MarshalJSON() ([]byte, error) {
	return json.Marshal(clockJSON{(*plainClock)(&c), millis(c.Skew), millis(c.Error), millis(c.Least), millis(c.Most)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Clock) UnmarshalJSON(b []byte) error {
	w := clockJSON{plainClock: (*plainClock)(c)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	c.Skew, c.Error, c.Least, c.Most = ofMillis(w.Skew), ofMillis(w.Error), ofMillis(w.Least), ofMillis(w.Most)
	return nil
}
