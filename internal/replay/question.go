package replay

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

var (
	// ErrBad is wrapped by the errors of questions that make no sense.
	ErrBad = errors.New("replay: the question makes no sense")
	// ErrUnknown is wrapped by the errors of questions about a device or group that does not exist.
	ErrUnknown = errors.New("replay: unknown")
	// ErrBusy is returned while another question is being answered.
	ErrBusy = errors.New("replay: another question is being answered; try again when it is done")
)

// Field is the setting that is changed.
type Field string

// The settings that a replay can change. The names are those of the API.
const (
	Timeout     Field = "timeout"
	LateAfter   Field = "late_after"
	CloseGrace  Field = "close_grace"
	OutageShare Field = "outage_share"
)

const (
	// MaxValues is how many values a question has at most.
	MaxValues = 60
	// MaxSpan is the longest value, and how long ago a window begins at most.
	MaxSpan = 366 * 24 * time.Hour
	// defaultWindow is how long a window is that has no beginning.
	defaultWindow = 7 * 24 * time.Hour
)

// Question is what is asked.
type Question struct {
	// Group or Device limits the question to the devices of a group, or to one. Default: all devices.
	Group, Device string
	// From and To are the window. Default: the 7 days before To; now.
	From, To time.Time
	// Field is the setting that is changed. Default: Timeout.
	Field Field
	// Values are those of Field, unless it is OutageShare. Default: from a quarter to four times the value
	// that most of the devices have today.
	Values []time.Duration
	// Shares are the values of OutageShare. Default: 0.05 to 0.5.
	Shares []float64

	ids map[string]bool // only these devices, each with a tally of its own; nil: all
}

// checked returns the question with its defaults, but for Values.
func (q Question) checked(now time.Time) (Question, error) {
	q.Field = cmp.Or(q.Field, Timeout)
	if q.To.IsZero() {
		q.To = now
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultWindow)
	}
	if q.Field == OutageShare && len(q.Shares) == 0 {
		q.Shares = shareGrid(0.05, 0.5)
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if q.Group != "" && q.Device != "" {
		wrong("a question is about a group or about a device, not about both")
	}
	switch {
	case q.From.After(now):
		wrong("from is %s, which is still to come", stamp(q.From))
	case !q.To.After(q.From):
		wrong("to is %s, which is not after from, %s", stamp(q.To), stamp(q.From))
	case now.Sub(q.From) > MaxSpan:
		wrong("from is %s, more than 366 days ago", stamp(q.From))
	}
	if err := errors.Join(append(errs, q.checkValues()...)...); err != nil {
		return q, fmt.Errorf("%w: %w", ErrBad, err)
	}
	if q.To.After(now) {
		q.To = now
	}
	return q, nil
}

func (q *Question) checkValues() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if n := max(len(q.Values), len(q.Shares)); n > MaxValues {
		wrong("%s has %d values, want at most %d", q.Field, n, MaxValues)
	}
	switch q.Field {
	case Timeout, LateAfter, CloseGrace:
		if len(q.Shares) > 0 {
			wrong("one setting is changed at a time: %s or %s", q.Field, OutageShare)
		}
	case OutageShare:
		if len(q.Values) > 0 || q.Device != "" {
			wrong("%s is about groups: it takes shares, and no device", q.Field)
		}
	default:
		wrong("%q is no setting that can be replayed; there are %s, %s, %s and %s", q.Field, Timeout, LateAfter, CloseGrace, OutageShare)
	}
	for _, v := range q.Values {
		if err := checkSpan(v); err != nil {
			wrong("%s: %w", q.Field, err)
		}
	}
	for _, v := range q.Shares {
		if err := checkShare(v); err != nil {
			wrong("%s: %w", q.Field, err)
		}
	}
	return errs
}

// leastSpan is the shortest value.
const leastSpan = 100 * time.Millisecond

func checkSpan(d time.Duration) error {
	if d < leastSpan || d > MaxSpan {
		return fmt.Errorf("%s is not between %s and 366 days", duration.String(d), duration.String(leastSpan))
	}
	return nil
}

func checkShare(v float64) error {
	if !(v > 0 && v <= 1) { // nor NaN
		return fmt.Errorf("%v is not a share above 0 and up to 1", v)
	}
	return nil
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
