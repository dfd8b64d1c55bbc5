package broker

import "time"

// WithCommitTimeout returns the configuration with how long a client waits for what its CONNECT caused to be stored.
func (c Config) WithCommitTimeout(d time.Duration) Config {
	c.commitTimeout = d
	return c
}

// Topics lets tests look for topics.
type Topics struct{ retained }

// Set keeps a topic.
func (t *Topics) Set(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setLocked(topic, len(topic), false)
}

// Remove removes one.
func (t *Topics) Remove(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(&t.root, topic)
}

// Match returns those that match a filter.
func (t *Topics) Match(filter string) []string { return t.match(filter) }

// Size returns how many there are, and their bytes.
func (t *Topics) Size() (count, bytes int) { return t.size() }

// Empty reports whether nothing is held for topics that are gone.
func (t *Topics) Empty() bool { return len(t.root.below) == 0 }

// ParseUser reads a line of a users file.
func ParseUser(line string) (name string, err error) {
	name, _, err = parseUser(line)
	return name, err
}

// CheckHeader looks at how a connection begins, some bytes at a time.
func CheckHeader(p []byte, atOnce int) error {
	var h header
	for len(p) > 0 {
		n := min(atOnce, len(p))
		if err := h.check(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
