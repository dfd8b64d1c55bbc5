package report

import (
	"encoding/json"
	"time"
)

// Schema names what report.json looks like. The number rises when a field changes its meaning or goes; new fields may come without.
const Schema = schemaName + "1"

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
	// Unjudged counts verdicts on devices whose worker had died, so that nobody knows whether they are right; UnjudgedDevices is how many
	// devices that are.
	Unjudged        uint64 `json:"unjudged"`
	UnjudgedDevices int    `json:"unjudged_devices"`
	// Mistakes of all kinds that were looked for, those that did not happen too.
	Mistakes []Mistake `json:"mistakes"`
	// Detection is how long after its deadline a right verdict was decided. Its 99th percentile may be DetectionAllowed; 0: not checked.
	Detection        Distribution  `json:"detection"`
	DetectionAllowed time.Duration `json:"-"`
}

// Mistake is a kind of mistake.
type Mistake struct {
	// Name has a few words: "false offline"; Meaning is a sentence.
	Name    string `json:"name"`
	Meaning string `json:"meaning,omitempty"`
	Count   uint64 `json:"count"`
	// Allowed is how many of them let the run pass; below 0: not checked.
	Allowed  int       `json:"allowed"`
	Examples []Example `json:"examples,omitempty"`
}

// Held says that there were not more than allowed.
func (m Mistake) Held() bool { return m.Allowed < 0 || m.Count <= uint64(m.Allowed) }

// Example is one mistake, for a person to look up.
type Example struct {
	Device string    `json:"device"`
	At     time.Time `json:"at,omitzero"`
	// Done is what was done to the device, Said what was said of it.
	Done string `json:"done"`
	Said string `json:"said"`
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
