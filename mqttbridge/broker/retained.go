package broker

import (
	"strings"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// retained knows the topics of the retained messages, and what they take. The messages are kept by the protocol's implementation, whose own
// index of topics is read without a lock while others write to it. The zero retained is empty.
type retained struct {
	mu           sync.RWMutex // guards the fields below; the implementation's locks are taken after it
	root         level
	count, bytes int // of clients' messages
}

// level is a part of topics.
type level struct {
	below map[string]*level
	topic string // of the message that is kept; "" for none
	size  int
	own   bool // the program's
}

// refresh looks at what is kept for a topic.
func (r *retained) refresh(topic string, own bool, server *mqtt.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pk, ok := server.Topics.Retained.Get(topic); ok {
		r.setLocked(topic, len(topic)+len(pk.Payload), own)
	} else {
		r.removeLocked(&r.root, topic)
	}
}

func (r *retained) setLocked(topic string, size int, own bool) {
	at := &r.root
	for part := range strings.SplitSeq(topic, "/") {
		next := at.below[part]
		if next == nil {
			if at.below == nil {
				at.below = make(map[string]*level)
			}
			next = &level{}
			at.below[part] = next
		}
		at = next
	}
	r.discountLocked(at)
	at.topic, at.size, at.own = topic, size, own
	if !own {
		r.count++
		r.bytes += size
	}
}

// discountLocked takes what is kept at a level out of the sums.
func (r *retained) discountLocked(at *level) {
	if at.topic != "" && !at.own {
		r.count--
		r.bytes -= at.size
	}
	at.topic = ""
}

// removeLocked removes what is kept for the topic whose rest lies below a level.
func (r *retained) removeLocked(at *level, rest string) {
	part, below, deeper := strings.Cut(rest, "/")
	next := at.below[part]
	switch {
	case next == nil:
		return
	case deeper:
		r.removeLocked(next, below)
	default:
		r.discountLocked(next)
	}
	if next.topic == "" && len(next.below) == 0 {
		delete(at.below, part)
	}
}

func (r *retained) size() (count, bytes int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.count, r.bytes
}

// fits reports whether a message of a client may be kept.
func (r *retained) fits(topic string, size, count, bytes int) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at := &r.root
	for part := range strings.SplitSeq(topic, "/") {
		if at = at.below[part]; at == nil {
			break
		}
	}
	have, more := 0, 1
	if at != nil && at.topic != "" && !at.own {
		have, more = at.size, 0
	}
	return r.count+more <= count && r.bytes+len(topic)+size-have <= bytes
}

// match returns the topics of the kept messages that match a filter (MQTT 5, 4.7).
func (r *retained) match(filter string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.root.match(filter, true, nil)
}

func (l *level) match(filter string, first bool, found []string) []string {
	part, rest, more := strings.Cut(filter, "/")
	switch part {
	case "#":
		return l.all(first, found)
	case "+":
		for name, next := range l.below {
			if !first || !strings.HasPrefix(name, "$") {
				found = next.matchRest(rest, more, found)
			}
		}
	default:
		if next := l.below[part]; next != nil {
			found = next.matchRest(rest, more, found)
		}
	}
	return found
}

// matchRest appends the topics that match what follows in a filter, if anything does.
func (l *level) matchRest(rest string, more bool, found []string) []string {
	if more && rest != "#" {
		return l.match(rest, false, found)
	}
	if l.topic != "" { // a/# matches a, too
		found = append(found, l.topic)
	}
	if more {
		found = l.all(false, found)
	}
	return found
}

// all appends the topics below a level.
func (l *level) all(first bool, found []string) []string {
	for name, next := range l.below {
		if first && strings.HasPrefix(name, "$") {
			continue
		}
		if next.topic != "" {
			found = append(found, next.topic)
		}
		found = next.all(false, found)
	}
	return found
}

// mayRetain reports whether a message of a client may be kept, and counts if not. An empty one removes what is kept.
func (b *Broker) mayRetain(topic string, size int) bool {
	if size == 0 || b.retained.fits(topic, size, b.config.MaxRetained, b.config.MaxRetainedBytes) {
		return true
	}
	b.counts.retainedRefused.Add(1)
	return false
}
