package mqttreport

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Encode makes one level of a topic of a device's id: a slash, a wildcard, a percent sign and whatever should not be in a topic (control
// characters, non-characters, what is not UTF-8: MQTT 3.1.1, section 1.5.3) become a percent sign and two hexadecimal digits for each byte.
func Encode(id string) string {
	var b strings.Builder
	for i := 0; i < len(id); {
		r, n := utf8.DecodeRuneInString(id[i:])
		if plain(r, n) {
			b.WriteString(id[i : i+n])
		} else {
			for _, c := range []byte(id[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		i += n
	}
	return b.String()
}

func plain(r rune, n int) bool {
	switch {
	case r == utf8.RuneError && n <= 1, strings.ContainsRune("/+#%", r), unicode.IsControl(r):
		return false
	case r&0xFFFE == 0xFFFE, r >= 0xFDD0 && r <= 0xFDEF, r == 0xFEFF:
		return false
	}
	return true
}

// errLevel is returned by Decode for what Encode does not make.
var errLevel = errors.New("report: not an encoded device id")

// Decode is the inverse of [Encode]. What Encode does not make is an error.
func Decode(level string) (string, error) {
	id, err := url.PathUnescape(level)
	if err != nil || Encode(id) != level {
		return "", errLevel
	}
	return id, nil
}

// StateTopic is the topic of a device's state.
func StateTopic(prefix, id string) string { return prefix + "/" + Encode(id) + "/state" }

// StatusTopic is the topic that reports whether the reporter is there.
func StatusTopic(prefix string) string { return prefix + "/status" }

// SourceTopic is the topic that reports whether a source listens. It has a level more than that of any device's state.
func SourceTopic(prefix, source string) string {
	return prefix + "/source/" + Encode(source) + "/status"
}

func sourceFilter(prefix string) string { return prefix + "/source/+/status" }

// idOf returns the device that a topic of states is for.
func idOf(prefix, topic string) (string, bool) {
	rest, ok := strings.CutPrefix(topic, prefix+"/")
	if !ok {
		return "", false
	}
	level, ok := strings.CutSuffix(rest, "/state")
	if !ok || strings.Contains(level, "/") {
		return "", false
	}
	id, err := Decode(level)
	return id, err == nil
}

// checkPrefix says what is wrong with the beginning of topics.
func checkPrefix(name, prefix string) error {
	if prefix == "" || len(prefix) > 256 || strings.ContainsAny(prefix, "+#\x00") || strings.HasPrefix(prefix, "$") ||
		strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") || !utf8.ValidString(prefix) {
		return fmt.Errorf("report: %s %q: want levels of a topic without wildcards, at most 256 bytes, that begin with neither $ nor a slash and do not end with one",
			name, prefix)
	}
	return nil
}
