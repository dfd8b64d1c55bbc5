package score

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report says how good the verdicts were.
type Report struct {
	// Devices are those of the plan, Touched those that something was done to or happened to.
	Devices int `json:"devices"`
	Touched int `json:"touched"`
	// Verdicts counts the events of devices, Offlines the offline verdicts among them. Of these,
	// Right were right, Excused neither right nor wrong, and Waiting wait for their truth.
	Verdicts uint64 `json:"verdicts"`
	Offlines uint64 `json:"offlines"`
	Right    uint64 `json:"right"`
	Excused  uint64 `json:"excused"`
	Waiting  uint64 `json:"waiting"`
	// Unjudged counts the offline verdicts on devices whose truth had ended, and UnjudgedDevices
	// such devices; see [Score.Unknown]. Neither counts as right or wrong.
	Unjudged        uint64 `json:"unjudged"`
	UnjudgedDevices int    `json:"unjudged_devices"`

	// FalseOffline are verdicts on devices that were alive. Among them: Early, those on devices
	// that were gone, but not for long enough yet; Replaced, those that came from the end of a
	// connection when the device was back on another one; and Overtaken, those that were due, but
	// came when the gateway had long heard that the device was back.
	FalseOffline Figure `json:"false_offline"`
	Early        Figure `json:"early"`
	Replaced     Figure `json:"replaced"`
	Overtaken    Figure `json:"overtaken"`
	// MissedOffline are absences that have no verdict, WrongReason those whose verdict gives
	// another reason than the true one.
	MissedOffline Figure `json:"missed_offline"`
	WrongReason   Figure `json:"wrong_reason"`
	// Order are events of a device whose number or epoch is lower than one before, Gaps are missing
	// numbers; Duplicates came twice, or are second verdicts on one absence.
	Order      Figure `json:"order"`
	Gaps       Figure `json:"gaps"`
	Duplicates Figure `json:"duplicates"`
	// NeverOnline are devices without an event that says they are online, Stuck are those that are
	// back and still offline by their last event. Both are known at the end only.
	NeverOnline Figure `json:"never_online"`
	Stuck       Figure `json:"stuck"`
	// FalseOnline are devices that were reported online while they were away. Late are verdicts and
	// returns that arrived long after they were due; see [Options].Late.
	FalseOnline Figure `json:"false_online"`
	Late        Figure `json:"late"`
	// Future are events that came before the time that they tell; Backwards those that tell an
	// earlier time than the event of the device before them; Contradictions those that cannot
	// follow that one, or are from before their own deadline; Lacking those that do not have all
	// that events of Holter's have. Forgotten are events that say that a device was removed.
	Future         Figure `json:"future"`
	Backwards      Figure `json:"backwards"`
	Contradictions Figure `json:"contradictions"`
	Lacking        Figure `json:"lacking"`
	Forgotten      Figure `json:"forgotten"`
	// LogGaps are places of the log that are missing, LogOrder places that come again.
	LogGaps  Figure `json:"log_gaps"`
	LogOrder Figure `json:"log_order"`
	// DeafAnswered are times in which a source reports to have been deaf although the gateway
	// answered. That is known at the end only.
	DeafAnswered Figure `json:"deaf_answered"`
	// DeafUnasked are times for which a source was deaf, and not where the gateway was stopped, see
	// [Score.Stopped].
	DeafUnasked Figure `json:"deaf_unasked"`
	// Not mistakes by themselves: OtherTimeout are verdicts by another timeout than the plan's;
	// Strangers are events of devices that are not in the plan.
	OtherTimeout Figure `json:"other_timeout"`
	Strangers    Figure `json:"strangers"`

	// Latency is how long after its deadline a right verdict was decided, by what the gateway says
	// of that; Told is how long after the deadline it came. See [Report.Detection] and
	// [Report.Delivery].
	Latency Latency `json:"latency"`
	Told    Latency `json:"told"`
	// Deaf counts how often sources that hear the fleet said that they were deaf, since the streams
	// were there; DeafFor is how long that was altogether, DeafLongest the longest of these times.
	// StillDeaf are the names of those that are deaf at the end.
	Deaf        int           `json:"deaf"`
	DeafFor     time.Duration `json:"deaf_for_ns"`
	DeafLongest time.Duration `json:"deaf_longest_ns"`
	StillDeaf   []string      `json:"still_deaf,omitempty"`
	// Clocks are the gateways' clocks. Unnumbered and Unreasoned are the addresses of those whose
	// events had no numbers, and no reasons, and need not: what follows from these was not checked
	// there.
	Clocks     []Clocked `json:"clocks,omitempty"`
	Unnumbered []string  `json:"unnumbered,omitempty"`
	Unreasoned []string  `json:"unreasoned,omitempty"`
	// Breaks counts how often a stream of verdicts broke; Incomplete says where events were no
	// longer kept when it was read on, for the first ten times: figures that follow from that are
	// not the gateway's fault alone.
	Breaks     int      `json:"breaks"`
	Incomplete []string `json:"incomplete,omitempty"`

	detection, told *hdrhistogram.Histogram
}

// Clocked is what is known of a gateway's clock: by how much it is ahead of the one of this
// machine, and by how much that may be wrong; and the least and the most that it was in the course
// of time.
type Clocked struct {
	URL      string        `json:"url"`
	Measured bool          `json:"measured"`
	Set      bool          `json:"set"` // by somebody
	Skew     time.Duration `json:"skew_ns"`
	Error    time.Duration `json:"error_ns"`
	Least    time.Duration `json:"least_ns"`
	Most     time.Duration `json:"most_ns"`
}

// take notes a measurement.
func (c *Clocked) take(v *Verdict) {
	if !c.Measured {
		c.Least, c.Most = v.Skew, v.Skew
	}
	c.Measured, c.Set, c.Skew, c.Error = true, v.Reason != "", v.Skew, v.Error
	c.Least, c.Most = min(c.Least, v.Skew), max(c.Most, v.Skew)
}

// describe says what is known of a gateway.
func (g *gateway) describe(r *Report) {
	if !g.followed {
		return
	}
	g.clock.URL = g.url
	r.Clocks = append(r.Clocks, g.clock)
	if !g.numbered && (g.spoke || !g.full) {
		r.Unnumbered = append(r.Unnumbered, g.url)
	}
	if !g.reasoned && g.offline {
		r.Unreasoned = append(r.Unreasoned, g.url)
	}
}

// Unit is that of the values in histograms.
const Unit = time.Microsecond

// Detection returns the histogram behind Latency, in units of [Unit]. It is the report's own.
func (r *Report) Detection() *hdrhistogram.Histogram { return r.detection }

// Delivery returns the histogram behind Told, in units of [Unit]. It is the report's own.
func (r *Report) Delivery() *hdrhistogram.Histogram { return r.told }

// Figure counts something, and has the first ten cases for a person to look up.
type Figure struct {
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples,omitempty"`
}

// Example is one case.
type Example struct {
	Device string `json:"device"`
	Number int    `json:"number"` // of the device; -1 for a stranger
	URL    string `json:"url,omitempty"`
	// Done is what was done to the device, and when; Said what was reported of it, and when.
	Done string `json:"done"`
	Said string `json:"said"`
	// At is the instant of the report, or that at which it should have come.
	At time.Time `json:"at"`

	key int64 // tells the cases of a device apart
}

// String says it in one line.
func (e Example) String() string { return e.Device + ": " + e.Said + "; " + e.Done }

// maxExamples is how many of each kind are kept.
const maxExamples = 10

// add counts a case; describe is asked for it if there is room.
func (f *Figure) add(n uint64, describe func() Example) {
	f.Count += n
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, describe())
	}
}

// retract takes a case back.
func (f *Figure) retract(number int, key int64) {
	f.Count--
	f.Examples = slices.DeleteFunc(f.Examples, func(e Example) bool { return e.Number == number && e.key == key })
}

// Latency is a histogram in a few figures, all zero if Count is.
type Latency struct {
	Count uint64        `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p99_9_ns"`
	Max   time.Duration `json:"max_ns"`
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := h.ValueAtPercentilesSlice([]float64{50, 99, 99.9})
	of := func(v int64) time.Duration { return time.Duration(v) * Unit }
	return Latency{Count: uint64(h.TotalCount()), P50: of(at[0]), P99: of(at[1]), P999: of(at[2]), Max: of(h.Max())}
}
