package report

import (
	"encoding/json"
	"strings"
	"time"
)

// Schema names what report.json looks like. The number rises when a field changes its meaning or
// goes; new fields may come without.
const Schema = "holter.loadgen.report/2"

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

	Ended   time.Time    `json:"ended"`
	Samples List[Sample] `json:"samples"`

	// Of the whole run; see [Sample].
	RTT        Distribution `json:"rtt"`
	RTTPlanned Distribution `json:"rtt_planned"`
	Lateness   Distribution `json:"lateness"`
	Connect    Distribution `json:"connect"`

	// Verdicts is nil if no verdicts were followed.
	Verdicts *Verdicts `json:"verdicts,omitempty"`
	// Hits are the limits of the machine or of the target that the run has met, with what shows it.
	Hits    List[Hit] `json:"limits_hit"`
	Outcome Outcome   `json:"outcome"`
}

// Verdicts compares the verdicts on devices with what was done to them.
type Verdicts struct {
	// From is where they were read.
	From  []string `json:"from"`
	Right uint64   `json:"right"`
	// Unjudged counts verdicts on devices whose worker had died. Whether they are right is unknown.
	// UnjudgedDevices is the number of these devices.
	Unjudged        uint64 `json:"unjudged"`
	UnjudgedDevices int    `json:"unjudged_devices"`
	// Excused counts verdicts that are neither right nor wrong: on devices that sleep, stall or
	// could not get in.
	Excused uint64 `json:"excused"`
	// Deaf is how long the gateways reported that they heard nothing.
	Deaf Deaf `json:"deaf"`
	// Behind is how far the gateways said that their listening clocks were behind.
	Behind Behind `json:"behind"`
	// Clocks are those that verdicts are stamped with.
	Clocks []Clock `json:"clocks,omitempty"`
	// NotChecked says what could not be checked, a sentence each.
	NotChecked []string `json:"not_checked,omitempty"`
	// Mistakes of all kinds that were looked for, those that did not happen too.
	Mistakes []Mistake `json:"mistakes"`
	// Detection is the time from a deadline to the arrival of a right verdict, Decided that to the
	// instant at which the gateway says it decided. DetectionAllowed is the limit of the 99th
	// percentile of Detection; 0: not checked.
	Detection        Distribution `json:"detection"`
	Decided          Distribution `json:"decided"`
	DetectionAllowed Millis       `json:"detection_p99_allowed_ms,omitempty"`
}

// Deaf is how long sources reported that they were deaf.
type Deaf struct {
	Count int `json:"count"`
	// Still are those that were deaf at the end.
	Still   []string `json:"still,omitempty"`
	Total   Millis   `json:"total_ms"`
	Longest Millis   `json:"longest_ms"`
	// Allowed is how long Total may be; below 0: for any time.
	Allowed Millis `json:"allowed_ms"`
}

// Held reports whether it was not longer than allowed, and is over.
func (d Deaf) Held() bool { return len(d.Still) == 0 && (d.Allowed < 0 || d.Total <= d.Allowed) }

// Behind is how far listening clocks were behind, because input waited to be read.
type Behind struct {
	Most Millis `json:"most_ms"`
	// Back counts the devices that were back after their deadline, and before a clock that was
	// behind had reached it: they need no verdict.
	Back uint64 `json:"back"`
}

// Clock is a clock that verdicts are stamped with, compared with the generator's.
type Clock struct {
	From string `json:"from"`
	// Measured reports whether the skew was measured, Set whether it was configured. If it was
	// neither, the clocks are assumed to be equal.
	Measured bool `json:"measured"`
	Set      bool `json:"set"`
	// Skew is by how much it is ahead, Error by how much Skew may be wrong. Least and Most are the
	// range of Skew during the run.
	Skew  Millis `json:"skew_ms"`
	Error Millis `json:"error_ms"`
	Least Millis `json:"least_ms"`
	Most  Millis `json:"most_ms"`
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
	// Unchecked reports whether the events lacked what would show this kind.
	Unchecked bool      `json:"unchecked,omitempty"`
	Examples  []Example `json:"examples,omitempty"`
}

// Held reports whether there were not more than allowed.
func (m Mistake) Held() bool { return m.Allowed < 0 || m.Count <= uint64(m.Allowed) }

// None reports whether there are none, and that is allowed.
func (m Mistake) None() bool { return m.Count == 0 && m.Held() }

// None returns the kinds of mistakes that were checked and did not occur.
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
	// Done is what was done to the device, Said what the gateway said of it.
	Done string `json:"done"`
	Said string `json:"said"`
}

// Timed reports whether the example has an instant that Said does not have.
func (e Example) Timed() bool {
	return !e.At.IsZero() && !strings.Contains(e.Said, e.At.UTC().Format("15:04:05"))
}

// Hit is a limit that was hit.
type Hit struct {
	Limit    string  `json:"limit"`
	Evidence string  `json:"evidence"`
	Mend     string  `json:"mend,omitempty"` // what to do, a command if there is one
	At       Seconds `json:"at_s,omitempty"` // since the run began; 0: unknown
}

// Outcome is how a run ended.
type Outcome struct {
	Passed bool `json:"passed"`
	// Status is the exit status of the program.
	Status int `json:"status"`
	// Reasons say why it did not pass, or was broken off; the first one first.
	Reasons List[string] `json:"reasons"`
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

// plainFinal is a Final without its methods.
type plainFinal Final

// finalJSON is a Final with what follows from it.
type finalJSON struct {
	schemaJSON
	*plainFinal

	Took    Seconds    `json:"took_s"`
	Stages  List[Span] `json:"stages"`
	Trouble *Trouble   `json:"first_trouble,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (f Final) MarshalJSON() ([]byte, error) { return json.Marshal(f.wire()) }

func (f *Final) wire() finalJSON {
	return finalJSON{
		schemaJSON: schemaJSON{Schema}, plainFinal: (*plainFinal)(f), Took: Seconds(f.Duration()), Stages: Spans(f.Samples), Trouble: FirstTrouble(f),
	}
}
