package judgement

import "sync"

// Calendars are the windows and the schedules that policies have, by their text. The zero calendars are ready;
// they may be used concurrently.
type Calendars struct {
	quiets       memo[quiet]
	expectations memo[*expectation]
}

// quiet returns what a [Policy.Quiet] says.
func (c *Calendars) quiet(text string) (quiet, error) { return c.quiets.parse(text, parseQuiet) }

// expectation returns what a [Policy.Expect] says, nil if that is empty.
func (c *Calendars) expectation(text string) (*expectation, error) {
	return c.expectations.parse(text, parseExpect)
}

// maxMemo is how many texts are kept in parsed form.
const maxMemo = 4096

// memo keeps what texts mean, so that each is parsed once.
type memo[T any] struct {
	mu     sync.Mutex // guards the fields below; taken last
	parsed map[string]T
}

// parse returns what a text means, the zero T if it is empty. A text that is new takes a millisecond or so, in
// which nobody waits for mu.
func (m *memo[T]) parse(text string, parse func(string) (T, error)) (means T, err error) {
	if text == "" {
		return means, nil
	}
	m.mu.Lock()
	means, ok := m.parsed[text]
	m.mu.Unlock()
	if ok {
		return means, nil
	}
	if means, err = parse(text); err != nil {
		return means, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parsed == nil || len(m.parsed) >= maxMemo {
		m.parsed = make(map[string]T)
	}
	m.parsed[text] = means
	return means, nil
}
