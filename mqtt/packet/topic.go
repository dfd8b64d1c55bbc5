package packet

import "bytes"

// sharePrefix begins the filter of a shared subscription (MQTT 5, 4.8.2).
const sharePrefix = "$share/"

// ValidTopic reports whether topic is a topic name: 1 to 65,535 bytes of UTF-8, without NUL and
// without the wildcards + and # (MQTT 5, 4.7).
func ValidTopic(topic []byte) bool {
	return len(topic) > 0 && len(topic) <= maxText && !hasWildcard(topic) && validText(topic)
}

// ValidFilter reports whether filter is a topic filter: 1 to 65,535 bytes of UTF-8 without NUL, + alone
// in its level, # alone in the last level (MQTT 5, 4.7.1). What begins with $share/ must have the
// name of a group and a filter behind it (MQTT 5, 4.8.2).
func ValidFilter(filter []byte) bool {
	if len(filter) == 0 || len(filter) > maxText || !validText(filter) {
		return false
	}
	if isShared(filter) {
		_, rest, ok := SplitShare(filter)
		return ok && validLevels(rest)
	}
	return validLevels(filter)
}

// SplitShare splits the filter of a shared subscription, $share/group/rest; both parts are views
// into it. ok reports whether it is one: group and rest are not empty, and group has no wildcard
// (MQTT 5, 4.8.2). Whether rest is a filter is for ValidFilter to say.
func SplitShare(filter []byte) (group, rest []byte, ok bool) {
	if !isShared(filter) {
		return nil, nil, false
	}
	group, rest, _ = bytes.Cut(filter[len(sharePrefix):], []byte{'/'})
	if len(group) == 0 || len(rest) == 0 || hasWildcard(group) {
		return nil, nil, false
	}
	return group, rest, true
}

func isShared(filter []byte) bool {
	return len(filter) >= len(sharePrefix) && string(filter[:len(sharePrefix)]) == sharePrefix
}

func hasWildcard(topic []byte) bool {
	return bytes.IndexByte(topic, '+') >= 0 || bytes.IndexByte(topic, '#') >= 0
}

// validLevels reports whether each wildcard is alone in its level, and # in the last.
func validLevels(filter []byte) bool {
	if !hasWildcard(filter) {
		return true
	}
	for i, b := range filter {
		if b != '+' && b != '#' {
			continue
		}
		if i > 0 && filter[i-1] != '/' {
			return false
		}
		last := i == len(filter)-1
		if !last && (b == '#' || filter[i+1] != '/') {
			return false
		}
	}
	return true
}
