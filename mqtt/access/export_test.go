package access

import (
	"fmt"
	"runtime"
)

// Pattern is a topic filter of a rule for tests.
type Pattern struct{ f filter }

// ParsePattern reads the filter of a subscription as it stands in a rule.
func ParsePattern(text string) (Pattern, error) {
	f, err := parseFilter(text)
	return Pattern{f}, err
}

// Contains reports whether the filter matches every topic that another one matches.
func (p *Pattern) Contains(other string) bool { return p.f.contains(newPath(other), &names{}) }

// Overlaps reports whether there is a topic that both match.
func (p *Pattern) Overlaps(other string) bool { return p.f.overlaps(newPath(other), &names{}) }

// CheckFilter returns what is wrong with a topic filter.
func CheckFilter(filter string) error { return checkFilter(filter) }

// ParseUser reads a line of a users file.
func ParseUser(line string) (name string, err error) {
	name, _, err = parseUser(line)
	return name, err
}

// ParseRules reads the text of a rules file, and returns the grant of a user and a client id, which
// is nil if it may not use that.
func ParseRules(text, user, client string) (*Grant, error) {
	r, err := parseRules("rules.yaml", text, nil)
	if err != nil {
		return nil, err
	}
	a := &Access{passwords: newPasswords(nil)}
	a.set(state{rules: r})
	g, _, err := a.admit(a.state.Load(), byCertificate, user, nil, client)
	return g, err
}

// Occupy takes all places where passwords are checked, until release is called. None may be taken.
func (a *Access) Occupy() (release func()) {
	t := a.passwords.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.free
	t.free = 0
	return func() {
		for range all {
			t.pass()
		}
	}
}

// StandIn returns the type of the hash by which the password of an unknown user is checked.
func (a *Access) StandIn(user string) string {
	return fmt.Sprintf("%T", a.state.Load().users.standIn(a.passwords.seed, user))
}

// Remember remembers a password as right.
func (a *Access) Remember(user, password string) {
	a.passwords.remember(a.passwords.right, a.passwords.key(a.state.Load().users.find(user), user, []byte(password)))
}

// Remembered returns how many passwords are remembered, and Remembers how many that may be.
func (a *Access) Remembered() (n, most int) { return len(a.passwords.right), remembered }

// Idle reports whether no check of a password is under way.
func (a *Access) Idle() bool {
	p := a.passwords
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns.mu.Lock()
	defer p.turns.mu.Unlock()
	return len(p.checks)+len(p.tries)+len(p.turns.waiting) == 0 && p.turns.free == runtime.GOMAXPROCS(0)
}

func newPath(s string) *path {
	p := &path{}
	p.read(s)
	return p
}
