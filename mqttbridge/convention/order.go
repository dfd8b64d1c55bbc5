package convention

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// order is the value by which messages are ordered.
type order struct {
	kind orderKind
	n    int64   // whole number, or nanoseconds since 1970 of a time
	f    float64 // value of a number
	text string  // the text of a quoted value
}

// maxOrder is the length of the longest text that messages are ordered by, in bytes.
const maxOrder = 64

type orderKind uint8

const (
	textOrder orderKind = iota
	wholeOrder
	floatOrder
	timeOrder
)

// order converts the value to an order.
func (v value) order() (order, bool) {
	text, quoted := v.text()
	if !quoted {
		if !v.isNumber() {
			return order{}, false
		}
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return order{kind: wholeOrder, n: n, f: float64(n)}, true
		}
		f, err := strconv.ParseFloat(string(v), 64)
		return order{kind: floatOrder, f: f}, err == nil
	}
	if len(text) > maxOrder {
		return order{}, false
	}
	o := order{text: text}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		o.kind, o.n, o.f = wholeOrder, n, float64(n)
	} else if t, err := time.Parse(time.RFC3339Nano, text); err == nil && t.Year() >= 1970 && t.Year() < 2262 {
		o.kind, o.n = timeOrder, t.UnixNano()
	}
	return o, true
}

// less reports whether the value is less than another. Values that cannot be compared are not less.
func (o order) less(than order) bool {
	isNumber := func(k orderKind) bool { return k == wholeOrder || k == floatOrder }
	switch {
	case o.kind == than.kind && (o.kind == wholeOrder || o.kind == timeOrder):
		return o.n < than.n
	case isNumber(o.kind) && isNumber(than.kind):
		return cmp.Less(o.f, than.f)
	case o.text != "" && than.text != "":
		return o.text < than.text
	default:
		return false
	}
}

// orders remembers the latest order of each device in two maps. When the newer one is full, the
// older one is dropped.
type orders struct {
	half       int // devices in each map
	newer, old map[string]order
}

func newOrders(half int) *orders { return &orders{half: half, newer: make(map[string]order)} }

// note records a message's order, and reports whether it is not less than the device's latest one.
func (s *orders) note(device string, o order) bool {
	latest, ok := s.newer[device]
	if !ok {
		latest, ok = s.old[device]
	}
	if ok && o.less(latest) {
		return false
	}
	if _, there := s.newer[device]; !there {
		if len(s.newer) >= s.half {
			s.old, s.newer = s.newer, make(map[string]order)
		}
		device = strings.Clone(device) // it may share memory with a longer text
	}
	s.newer[device] = o
	return true
}
