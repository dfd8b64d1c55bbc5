// Package exports reads what other tools that watch heartbeats export: the checks of Healthchecks, the
// push monitors of Uptime Kuma, the heartbeats of Opsgenie. It says of each what it becomes, and what
// of it has no counterpart.
package exports

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/liveness"
)

// Check is what another tool watches.
type Check struct {
	Where  string // its place in the file, as in checks[3]
	Name   string // what people call it
	ID     string // its device; set by the functions that read a file, unique within it
	Policy liveness.Policy
	Paused bool     // it raises no alarms until somebody says so: maintenance
	OldURL string   // where it is reported to now; empty if the file does not tell
	Lost   []string // what of it is not carried over
	Skip   string   // why Holter cannot watch it; empty if it can
	Err    error    // what is wrong with it in the file

	word string // what its id is made of
	key  string // what tells it from others of the same name
}

// Usable reports whether a device can be made of it.
func (c *Check) Usable() bool { return c.Err == nil && c.Skip == "" }

// lose notes what is not carried over, if there is anything.
func (c *Check) lose(is bool, format string, args ...any) {
	if is {
		c.Lost = append(c.Lost, fmt.Sprintf(format, args...))
	}
}

// after sets the silence after which the check fails, and that after which it is late, if it is less.
func (c *Check) after(late, timeout time.Duration) {
	switch {
	case timeout <= 0:
		c.Err = fmt.Errorf("it fails after %v; want more than 0", timeout)
	case timeout > liveness.Never:
		c.Err = fmt.Errorf("it fails after %s; the longest that Holter has is %s", duration.String(timeout), duration.String(liveness.Never))
	default:
		c.Policy.Timeout = timeout
		if 0 < late && late < timeout {
			c.Policy.LateAfter = late
		}
	}
}

// name gives all checks ids that are valid, tell of their names, and are unique. Those with the same
// name get their keys behind it.
func name(checks []Check) []Check {
	count := map[string]int{}
	for i := range checks {
		c := &checks[i]
		c.ID = idOf(c.word, maxWord)
		if c.ID == "" && c.Name != unnamed {
			c.ID = idOf(c.Name, maxWord)
		}
		count[c.ID]++
		if c.ID == "" {
			c.ID, count[nameless] = nameless, 2 // so that it gets its key in any case
		}
	}
	taken := map[string]bool{}
	for i := range checks {
		c := &checks[i]
		if count[c.ID] > 1 {
			key := idOf(c.key, 8)
			if key == "" || taken[c.ID+"-"+key] {
				key = strconv.Itoa(i + 1)
			}
			c.ID += "-" + key
		}
		for word, n := c.ID, 2; taken[c.ID]; n++ {
			c.ID = word + "-" + strconv.Itoa(n)
		}
		taken[c.ID] = true
	}
	return checks
}

// unnamed is shown for what has no name, and nameless begins the ids of what has none to make one of.
const (
	unnamed  = "unnamed"
	nameless = "check"
)

// maxWord bounds what a name gives to an id, in bytes; prefix and key have room beside it.
const maxWord = 80

// idOf makes an id of a text that is easy to type and needs no escape in a URL but for letters that
// are not ASCII.
func idOf(text string, most int) string {
	keep := func(c rune) rune {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c), strings.ContainsRune("._", c):
			return unicode.ToLower(c)
		}
		return '-'
	}
	id := strings.Map(keep, norm.NFC.String(strings.ToValidUTF8(text, "-")))
	for strings.Contains(id, "--") {
		id = strings.ReplaceAll(id, "--", "-")
	}
	id = norm.NFC.String(id) // a small letter may have another form
	for len(id) > most {
		_, size := utf8.DecodeLastRuneInString(id)
		id = id[:len(id)-size]
	}
	id = strings.Trim(id, "-.")
	if liveness.ValidateID(id) != nil {
		return ""
	}
	return id
}
