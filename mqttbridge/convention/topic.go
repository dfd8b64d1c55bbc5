package convention

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxTopic  = 1<<16 - 1 // MQTT 3.1.1, section 1.5.3
	maxLevels = 128       // EMQX takes no more by default, and mosquitto 200
)

// CheckFilter returns why a broker might close the connection for a topic filter; nil if it does not. A payload may name any.
func CheckFilter(filter string) error {
	levels := strings.Split(filter, "/")
	switch {
	case filter == "":
		return errors.New("the topic is empty")
	case len(filter) > maxTopic:
		return fmt.Errorf("the topic has more than %d bytes", maxTopic)
	case len(levels) > maxLevels:
		return fmt.Errorf("the topic has more than %d levels", maxLevels)
	case levels[0] == "$share" || levels[0] == "$queue":
		return errors.New("the topic begins like a shared subscription")
	case !utf8.ValidString(filter) || strings.ContainsFunc(filter, isUnfit):
		return errors.New("the topic has a control character, a noncharacter, or a byte that is not UTF-8 (MQTT 3.1.1, section 1.5.3)")
	}
	for i, level := range levels {
		if strings.ContainsAny(level, "+#") && level != "+" && (level != "#" || i < len(levels)-1) {
			return errors.New("the topic has a wildcard where none may be (MQTT 3.1.1, section 4.7.1)")
		}
	}
	return nil
}

func isUnfit(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Noncharacter_Code_Point) }

// CheckTopic is [CheckFilter] for a topic to publish to.
func CheckTopic(topic string) error {
	if strings.ContainsAny(topic, "+#") {
		return errors.New("the topic has a wildcard")
	}
	return CheckFilter(topic)
}
