package convention

// Match matches a topic with a pattern and returns what its captures stand for.
func Match(pattern, topic string) (found map[string]string, ok bool, err error) {
	p, err := parsePattern(pattern)
	if err != nil {
		return nil, false, err
	}
	var c captures
	if !p.match(topic, &c) {
		return nil, false, nil
	}
	found = make(map[string]string, len(p.names))
	for i, name := range p.names {
		found[name] = c[i]
	}
	return found, true, nil
}

// Filter returns the filter that a topic is subscribed to with.
func Filter(pattern string) (string, error) {
	p, err := parsePattern(pattern)
	if err != nil {
		return "", err
	}
	return p.filter, nil
}

// Pointer returns the tokens of a JSON pointer.
func Pointer(text string) ([]string, error) { return parsePointer(text) }

// At returns the value in a payload that a pointer leads to, nil if there is none.
func At(payload []byte, pointer string) ([]byte, error) {
	p, err := parsePointer(pointer)
	d := document{payload: payload}
	return d.at(p), err
}

// Covers reports whether a filter covers another one.
func Covers(filter, other string) bool { return covers(filter, other) }

// ForgetAfter lets rules know the order of so many devices for sure.
func (r *Rules) ForgetAfter(devices int) { r.orders = newOrders(devices) }
