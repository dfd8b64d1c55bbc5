package convention

import (
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// Spec is a convention defined by rules. [New] compiles it.
type Spec struct {
	Name string
	// About describes the convention in one or more lines. [Spec.YAML] writes it as a comment.
	About string
	// Rules are tried in order. The first one whose topic matches decides, whatever its cases say.
	Rules []Rule
	// Strict rejects a payload as [NoCase] that no case of its rule fits, unless it is empty or Else
	// gives it a meaning. Otherwise it is ignored.
	Strict bool
}

// Rule defines the meaning of the messages on some topics. Its fields have the names of the
// configuration file.
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
	// Device is the id of the device, with captures. Default: "{device}", unless the payload gives
	// it.
	Device string `yaml:"device,omitempty"`
	// DeviceJSON points to the id of the device, which is a text or a number.
	DeviceJSON string `yaml:"device_json,omitempty"`
	// QoS is the quality of service to subscribe with, 0 or 1.
	QoS byte `yaml:"qos,omitempty"`
	// Behind names the gateway through which the devices are heard, with captures. Deaf and Heard
	// refer to it.
	Behind string `yaml:"behind,omitempty"`

	// Interval and Timeout are announced for the devices; Timeout may be [Never].
	Interval time.Duration `yaml:"interval,omitempty"`
	Timeout  time.Duration `yaml:"timeout,omitempty"`
	// IntervalJSON points to the seconds between two heartbeats; 0 announces nothing.
	IntervalJSON string `yaml:"interval_json,omitempty"`
	// Factor, if it is not 0, announces the interval times this as the timeout, unless Timeout does.
	Factor float64 `yaml:"factor,omitempty"`
	// KeepaliveJSON points to an MQTT keep alive in seconds. The timeout is 1.5 times that, as in
	// MQTT 5, 3.1.2.10; 0 means [Never]. It overrides Timeout and Factor.
	KeepaliveJSON string `yaml:"keepalive_json,omitempty"`
	// TTDJSON points to the number of seconds for which the device will be reachable: it is Online
	// with that timeout, whether the cases say Beat or Online. -1 is until further notice, 0 is
	// Bye. It overrides all other timeouts.
	TTDJSON string `yaml:"ttd_json,omitempty"`
	// SleepJSON points to the seconds of Sleep. -1 or no value means an unknown length, 0 a
	// heartbeat.
	SleepJSON string `yaml:"sleep_json,omitempty"`
	// OrderJSON points to a number, a time as in RFC 3339 or a text by which the messages of a device are ordered, over all rules: one
	// that is less than the device's latest is rejected. Messages that mean nothing are not looked at. Texts are compared as numbers or
	// times if both are, else byte by byte. The orders of the 500,000 devices that were heard last are known for sure, those of up to as
	// many more by luck; a message of a device whose order was forgotten is taken.
	OrderJSON string `yaml:"order_json,omitempty"`
	// EpochJSON points to a number, or a time as in RFC 3339, that rises with each session of the device, for instance the time of its
	// CONNECT; see Sign.Epoch. A time counts as nanoseconds since 1970.
	EpochJSON string `yaml:"epoch_json,omitempty"`

	// Cases are tried in order, and the first match decides. Without cases each message is a Beat,
	// whatever its payload.
	Cases []Case `yaml:"cases,omitempty"`
	// Else is the meaning of messages that match no case.
	Else Meaning `yaml:"else,omitempty"`
}

// Case is the meaning of messages with some payload. It has at most one condition; without one it
// always matches.
type Case struct {
	// Text is the whole payload.
	Text *string `yaml:"text,omitempty"`
	// JSON points to a value that must exist, and must be one of Equals if there are any: texts,
	// bools, numbers (float64 or int), nil for null.
	JSON   string `yaml:"json,omitempty"`
	Equals []any  `yaml:"equals,omitempty"`
	// Regex is searched in the payload, in the syntax of package regexp. Named groups give more:
	// (?P<device>...) the device, (?P<seconds>...) the length of Sleep, (?P<text>...) the text of
	// Fail, which is otherwise the whole payload.
	Regex string `yaml:"regex,omitempty"`
	// Empty: the payload is empty, as when a retained message is removed.
	Empty bool `yaml:"empty,omitempty"`

	Means Meaning `yaml:"means"`
}

// FieldError is a mistake in a [Rule]. [New] joins them with errors.Join.
type FieldError struct {
	Rule  int    // its index; -1: the mistake is in the Spec
	Case  int    // the index of the case; -1: not in a case
	Field string // name in the configuration
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

// meanings returns the names of the meanings, in their order.
func meanings() [11]string {
	return [...]string{"ignore", "beat", "online", "offline", "bye", "sleep", "fail", "gone", "deaf", "heard", "reported"}
}

// ParseMeaning returns the meaning with a name of the configuration.
func ParseMeaning(word string) (Meaning, error) {
	all := meanings()
	for i, w := range all {
		if w == word {
			return Meaning(i), nil
		}
	}
	return 0, fmt.Errorf("%s is not a meaning%s (there are: %s)", strictyaml.Quote(word), strictyaml.DidYouMean(word, all[:]), strings.Join(all[:], ", "))
}

// String returns the meaning's name in the configuration.
func (m Meaning) String() string {
	all := meanings()
	if int(m) < len(all) {
		return all[m]
	}
	return fmt.Sprintf("Meaning(%d)", uint8(m))
}

// MarshalText returns the meaning's name.
func (m Meaning) MarshalText() ([]byte, error) {
	if m > Reported {
		return nil, fmt.Errorf("there is no meaning %d", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText parses a meaning's name.
func (m *Meaning) UnmarshalText(word []byte) error {
	v, err := ParseMeaning(string(word))
	if err == nil {
		*m = v
	}
	return err
}

// ofDevice reports whether the meaning is about a device, and not about a gateway.
func (m Meaning) ofDevice() bool { return m != Ignore && m != Deaf && m != Heard }
