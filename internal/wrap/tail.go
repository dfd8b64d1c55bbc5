package wrap

import (
	"sync"
	"unicode/utf8"
)

// tail keeps the end of what is written to it. It may be used concurrently.
type tail struct {
	mu    sync.Mutex // guards the fields below
	ring  []byte
	at    int  // where the next byte goes
	whole bool // the ring has been filled
}

// write adds bytes.
func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(p) - len(t.ring); over >= 0 {
		copy(t.ring, p[over:])
		t.at, t.whole = 0, true
		return
	}
	n := copy(t.ring[t.at:], p)
	if n < len(p) || t.at+n == len(t.ring) {
		t.whole = true
	}
	copy(t.ring, p[n:])
	t.at = (t.at + len(p)) % len(t.ring)
}

// text returns what is kept, without the rest of a character whose beginning is not.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.whole {
		return string(t.ring[:t.at])
	}
	text := string(t.ring[t.at:]) + string(t.ring[:t.at])
	for range utf8.UTFMax - 1 {
		if text == "" || utf8.RuneStart(text[0]) {
			break
		}
		text = text[1:]
	}
	return text
}
