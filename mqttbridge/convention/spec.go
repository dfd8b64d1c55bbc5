package convention

import (
	"fmt"
	"strings"
	"time"
)

// Spec is a convention that is data. [New] compiles it.
type Spec struct {
	Name string
	// About says in a line or more what the convention is and what is worth knowing of it; [Spec.YAML] shows it as a comment.
	About string
	// Rules are tried in order: the first whose topic fits decides, whatever its cases say.
	Rules []Rule
}

// Rule says what the messages of some topics mean. Its fields are the words of the configuration file, there in snake case.
//
// Pointers (the fields that end in JSON, and [Case.JSON]) are JSON pointers as in RFC 6901 into the payload, for instance /client/id. One
// that leads nowhere gives nothing, except DeviceJSON, which has to give a device.
type Rule struct {
	// Topic is an MQTT topic filter with captures. In a level, {name} stands for at least one character other than /; name is a word of
	// lower case letters, digits and _. There may be fixed text around it, and several captures with fixed text between them: each but the
	// last takes as much as it can, so that {model}-{id} is split at the last hyphen. {name...}, for a whole level, stands for one or more
	// levels. A topic has at most 8 captures. + and # are as in MQTT: as its first level, neither they nor a capture fit a topic that begins
	// with $. A topic $share/group/... is subscribed to as a shared subscription.
	Topic string `yaml:"topic,omitempty"`
	// Device is the id of the device, with captures in it; "{device}" unless it is given here or in the payload.
	Device string `yaml:"device,omitempty"`
	// DeviceJSON points to the id of the device: a text or a number.
	DeviceJSON string `yaml:"device_json,omitempty"`
	// QoS is the quality of service to subscribe with, 0 or 1.
	QoS byte `yaml:"qos,omitempty"`
	// Behind names the gateway that the devices are heard through, with captures in it. Deaf and Heard are about it.
	Behind string `yaml:"behind,omitempty"`

	// Interval and Timeout are announced for the devices; Timeout may be [Never].
	Interval time.Duration `yaml:"interval,omitempty"`
	Timeout  time.Duration `yaml:"timeout,omitempty"`
	// IntervalJSON points to the seconds between two heartbeats; 0 announces nothing.
	IntervalJSON string `yaml:"interval_json,omitempty"`
	// Factor, if it is not 0, announces the interval times this as the timeout, unless Timeout does.
	Factor float64 `yaml:"factor,omitempty"`
	// KeepaliveJSON points to an MQTT keep alive in seconds: 1.5 times that is the timeout, as in MQTT 5, 3.1.2.10; 0 is [Never]. It wins
	// over Timeout and Factor.
	KeepaliveJSON string `yaml:"keepalive_json,omitempty"`
	// TTDJSON points to the seconds for which the device says that it will be there: it is Online with that timeout, whether the cases
	// say Beat or Online. -1 is until further notice, 0 is Bye. It wins over all other timeouts.
	TTDJSON string `yaml:"ttd_json,omitempty"`
	// SleepJSON points to the seconds of Sleep. -1 or nothing there is a sleep of unknown length, 0 is a heartbeat.
	SleepJSON string `yaml:"sleep_json,omitempty"`
	// OrderJSON points to a number, a time as in RFC 3339 or a text by which the messages of a device are ordered, over all rules: one
	// that is less than the device's latest is rejected. Messages that mean nothing are not looked at. Texts are compared as numbers or
	// times if both are, else byte by byte. The orders of the 500,000 devices that were heard last are known for sure, those of up to as
	// many more by luck; a message of a device whose order was forgotten is taken.
	OrderJSON string `yaml:"order_json,omitempty"`
	// EpochJSON points to a number, or a time as in RFC 3339, that rises with each session of the device, for instance the time of its
	// CONNECT; see Sign.Epoch. A time counts as nanoseconds since 1970.
	EpochJSON string `yaml:"epoch_json,omitempty"`

	// Cases are tried in order, the first that fits decides. Without cases each message is a Beat, whatever its payload.
	Cases []Case `yaml:"cases,omitempty"`
	// Else is for messages that fit no case.
	Else Meaning `yaml:"else,omitempty"`
}

// Case is what a message with some payload means. It has at most one condition, and without one fits always.
type Case struct {
	// Text is the whole payload.
	Text *string `yaml:"text,omitempty"`
	// JSON points to what has to be there, and to be one of Equals if there are any: texts, bools, numbers (float64 or int), nil for null.
	JSON   string `yaml:"json,omitempty"`
	Equals []any  `yaml:"equals,omitempty"`
	// Regex is found in the payload; its syntax is that of package regexp. Groups with a name give more: (?P<device>...) the device,
	// (?P<seconds>...) the length of Sleep, (?P<text>...) the text of Fail, which is the whole payload otherwise.
	Regex string `yaml:"regex,omitempty"`
	// Empty: the payload is empty, as when a retained message is removed.
	Empty bool `yaml:"empty,omitempty"`

	Means Meaning `yaml:"means"`
}

// FieldError is a mistake in a [Rule]. [New] joins them with errors.Join.
type FieldError struct {
	Rule  int    // its index; -1: the mistake is in the Spec
	Case  int    // the index of the case; -1: not in a case
	Field string // the word of the configuration: "topic", "device_json"
	Err   error
}

// Error counts rules and cases from 1.
func (e *FieldError) Error() string {
	where := e.Field
	if e.Case >= 0 {
		where = fmt.Sprintf("case %d: %s", e.Case+1, where)
	}
	if e.Rule >= 0 {
		where = fmt.Sprintf("rule %d: %s", e.Rule+1, where)
	}
	return where + ": " + e.Err.Error()
}

func (e *FieldError) Unwrap() error { return e.Err }

// meanings are the words for them, in their order.
func meanings() [10]string {
	return [...]string{"ignore", "beat", "online", "offline", "bye", "sleep", "fail", "gone", "deaf", "heard"}
}

// ParseMeaning returns the meaning that a word of the configuration stands for.
func ParseMeaning(word string) (Meaning, error) {
	all := meanings()
	for i, w := range all {
		if w == word {
			return Meaning(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no meaning; it is one of %s", word, strings.Join(all[:], ", "))
}

// String returns the meaning's word in the configuration.
func (m Meaning) String() string {
	all := meanings()
	if int(m) < len(all) {
		return all[m]
	}
	return fmt.Sprintf("Meaning(%d)", uint8(m))
}

// MarshalText returns the meaning's word.
func (m Meaning) MarshalText() ([]byte, error) {
	if m > Heard {
		return nil, fmt.Errorf("there is no meaning %d", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads a meaning's word.
func (m *Meaning) UnmarshalText(word []byte) error {
	v, err := ParseMeaning(string(word))
	if err == nil {
		*m = v
	}
	return err
}

// ofDevice reports whether the meaning is one for a device, and not for what stands behind something.
func (m Meaning) ofDevice() bool { return m != Ignore && m != Deaf && m != Heard }
