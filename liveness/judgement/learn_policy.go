package judgement

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LearnMode is what is done with a deadline that is learned.
type LearnMode uint8

const (
	// LearnUnset leaves the mode to the next rule.
	LearnUnset LearnMode = iota
	// LearnOff: none is in force, even if it was applied before.
	LearnOff
	// LearnSuggest: it is shown, and in force if liveness.Registry.ApplyLearned said so.
	LearnSuggest
	// LearnApply: it is in force unless the device has a Timeout of its own, and follows what is learned.
	LearnApply
)

const (
	// MaxLearnBudget is the greatest Policy.LearnBudget.
	MaxLearnBudget = 1000.0
	// LeastLearnBudget is the least.
	LeastLearnBudget = 0.001
	// MaxLearned is the greatest Policy.LearnMax.
	MaxLearned      = 31 * 24 * time.Hour
	defaultLearnMax = 24 * time.Hour
)

func (m LearnMode) String() string {
	names := [...]string{LearnUnset: "", LearnOff: "off", LearnSuggest: "suggest", LearnApply: "apply"}
	if int(m) < len(names) {
		return names[m]
	}
	return "invalid"
}

// ParseLearnMode is the reverse of String. Its error says which words there are.
func ParseLearnMode(text string) (LearnMode, error) {
	for m := LearnOff; m <= LearnApply; m++ {
		if text == m.String() {
			return m, nil
		}
	}
	return LearnUnset, fmt.Errorf("%.40q is not one of: off, suggest, apply", text)
}

// ParseLearnBudget parses how many false alarms of a device are accepted, such as 1/month, 3/week or
// 0.1/day; a bare number is for a month. It returns the number for a month of 30 days.
func ParseLearnBudget(text string) (float64, error) {
	number, span, named := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch span = strings.TrimSpace(span); {
	case span == "day":
		n *= 30
	case span == "week":
		n *= 30.0 / 7
	case span == "year":
		n *= 30 / 365.25
	case named && span != "month":
		err = strconv.ErrSyntax
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a number of false alarms; write 1/month, 3/week, 0.1/day or 2/year", text)
	case n == 0:
		return 0, fmt.Errorf("no deadline keeps a budget of %.40s; write how many false alarms of a device you accept, as in 1/month, or turn it off with the mode off", text)
	case !(n >= LeastLearnBudget && n <= MaxLearnBudget): // nor NaN
		return 0, fmt.Errorf("%.40s is out of range; allowed are %v to %v a month", text, LeastLearnBudget, MaxLearnBudget)
	}
	return n, nil
}
