package convention_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// apply compiles one rule and applies it to a message.
func apply(t *testing.T, rule convention.Rule, topic, payload string) (*convention.Sign, error) {
	t.Helper()
	rules, err := convention.New(convention.Spec{Name: "test", Rules: []convention.Rule{rule}})
	if err != nil {
		t.Fatal(err)
	}
	return one(t, rules, convention.Message{Topic: topic, Payload: []byte(payload)}, false)
}

// one applies a message that has at most one sign.
func one(t *testing.T, c convention.Convention, m convention.Message, explain bool) (sign *convention.Sign, err error) {
	t.Helper()
	err = c.Apply(m, explain, func(s convention.Sign) {
		if sign != nil {
			t.Errorf("%q: a second sign: %+v", m.Topic, s)
		}
		sign = &s
	})
	return sign, err
}

func TestApply(t *testing.T) {
	type (
		rule = convention.Rule
		sign = convention.Sign
		list = []convention.Case
	)
	states := list{
		{Text: new("Online"), Means: convention.Online},
		{Text: new("Offline"), Means: convention.Offline},
		{Empty: true, Means: convention.Gone},
	}
	reasons := list{
		{JSON: "/reason", Equals: []any{"takenover", "discarded"}, Means: convention.Ignore},
		{JSON: "/reason", Equals: []any{1, true, nil}, Means: convention.Bye},
		{JSON: "/reason", Means: convention.Offline},
	}
	for _, tt := range []struct {
		name           string
		rule           rule
		topic, payload string
		want           *sign
		rejected       string
	}{
		{"any message is a beat", rule{Topic: "{device}/#"}, "d1/x", "\xff\x00", &sign{Meaning: convention.Beat, Device: "d1"}, ""},
		{"another topic", rule{Topic: "a/{device}"}, "b/d1", "", nil, ""},
		{"a template", rule{Topic: "{group}/x/{id}", Device: "{group}:{id}"}, "g/x/7", "", &sign{Meaning: convention.Beat, Device: "g:7"}, ""},
		{"a fixed device", rule{Topic: "a/b", Device: "boiler"}, "a/b", "", &sign{Meaning: convention.Beat, Device: "boiler"}, ""},
		{"behind", rule{Topic: "{base}/{device}", Behind: "gw-{base}"}, "b/d", "", &sign{Meaning: convention.Beat, Device: "d", Behind: "gw-b"}, ""},
		{"text", rule{Topic: "{device}", Cases: states}, "d", "Offline", &sign{Meaning: convention.Offline, Device: "d"}, ""},
		{"text is exact", rule{Topic: "{device}", Cases: states}, "d", "offline", nil, ""},
		{"empty", rule{Topic: "{device}", Cases: states}, "d", "", &sign{Meaning: convention.Gone, Device: "d"}, ""},
		{"else", rule{Topic: "{device}", Cases: states, Else: convention.Beat}, "d", "x", &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"always", rule{Topic: "{device}", Cases: list{{Means: convention.Bye}}}, "d", "x", &sign{Meaning: convention.Bye, Device: "d"}, ""},

		{"json", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":"tcp_closed"}`, &sign{Meaning: convention.Offline, Device: "d"}, ""},
		{"json, one of several", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":"takenover"}`, nil, ""},
		{"json, with escapes", rule{Topic: "{device}", Cases: reasons}, "d", `{"r\u0065ason":"t\u0061kenover"}`, nil, ""},
		{"json, a number", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":1.0e0}`, &sign{Meaning: convention.Bye, Device: "d"}, ""},
		{"json, true", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":true}`, &sign{Meaning: convention.Bye, Device: "d"}, ""},
		{"json, null", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":null}`, &sign{Meaning: convention.Bye, Device: "d"}, ""},
		{"json, the text 1 is no number", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":"1"}`, &sign{Meaning: convention.Offline, Device: "d"}, ""},
		{"json, not there", rule{Topic: "{device}", Cases: reasons}, "d", `{"reasons":1}`, nil, ""},
		{"json needed by every case", rule{Topic: "{device}", Cases: reasons}, "d", `{"reason":`, nil, "json"},
		{"json needed, but nothing there", rule{Topic: "{device}", Cases: reasons}, "d", ``, nil, ""},
		{"json needed by some cases", rule{Topic: "{device}", Cases: append(states, reasons...)}, "d", `{"reason":`, nil, ""},
		{"json nested too deep", rule{Topic: "{device}", Cases: reasons}, "d", strings.Repeat("[", 100_000), nil, "json"},

		{"regex", rule{Topic: "{device}", Cases: list{{Regex: "^alive", Means: convention.Beat}}}, "d", "alive 7", &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"regex names the device", rule{Topic: "log", Cases: list{{Regex: `client (?P<device>\S+) connected`, Means: convention.Online}}}, "log", "1: client c-1 connected", &sign{Meaning: convention.Online, Device: "c-1"}, ""},
		{"regex gives a length", rule{Topic: "{device}", Cases: list{{Regex: `^sleep (?P<seconds>\d+)`, Means: convention.Sleep}}}, "d", "sleep 90", &sign{Meaning: convention.Sleep, Device: "d", Length: 90 * time.Second}, ""},
		{"regex gives an impossible length", rule{Topic: "{device}", Cases: list{{Regex: `^sleep (?P<seconds>\d+)`, Means: convention.Sleep}}}, "d", "sleep 99999999999", nil, "payload"},
		{"regex gives the failure", rule{Topic: "{device}", Cases: list{{Regex: `^E: (?P<text>.*)`, Means: convention.Fail}}}, "d", "E: pump\xff", &sign{Meaning: convention.Fail, Device: "d", Text: "pump\uFFFD"}, ""},
		{"failure", rule{Topic: "{device}/err", Cases: list{{Means: convention.Fail}}}, "d/err", "too hot", &sign{Meaning: convention.Fail, Device: "d", Text: "too hot"}, ""},

		{"device in the payload", rule{Topic: "$SYS/x", DeviceJSON: "/client/id"}, "$SYS/x", `{"client":{"id":"c\u00e4"}}`, &sign{Meaning: convention.Beat, Device: "cä"}, ""},
		{"device is a number", rule{Topic: "x", DeviceJSON: "/id"}, "x", `{"id":17}`, &sign{Meaning: convention.Beat, Device: "17"}, ""},
		{"device is not there", rule{Topic: "x", DeviceJSON: "/id"}, "x", `{}`, nil, "json"},
		{"device is an object", rule{Topic: "x", DeviceJSON: "/id"}, "x", `{"id":{}}`, nil, "json"},
		{"device in what is no JSON", rule{Topic: "x", DeviceJSON: "/id"}, "x", `id`, nil, "json"},
		{"device is empty", rule{Topic: "x", DeviceJSON: "/id"}, "x", `{"id":""}`, nil, "device_id"},
		{"device is too long", rule{Topic: "{device}"}, strings.Repeat("x", 129), "", nil, "device_id"},
		{"device is not UTF-8", rule{Topic: "{device}"}, "x\xff", "", nil, "device_id"},
		{"device has a control character", rule{Topic: "{device}"}, "x\n", "", nil, "device_id"},
		{"an ignored message may have any device", rule{Topic: "{device}", Cases: states}, "x\n", "?", nil, ""},

		{"constants", rule{Topic: "{device}", Interval: time.Minute, Timeout: 3 * time.Minute}, "d", "", &sign{Meaning: convention.Beat, Device: "d", Interval: time.Minute, Timeout: 3 * time.Minute}, ""},
		{"never", rule{Topic: "{device}", Timeout: convention.Never}, "d", "", &sign{Meaning: convention.Beat, Device: "d", Timeout: convention.Never}, ""},
		{"interval in the payload", rule{Topic: "{device}", IntervalJSON: "/p", Factor: 1.2}, "d", `{"p":"7200"}`, &sign{Meaning: convention.Beat, Device: "d", Interval: 2 * time.Hour, Timeout: 144 * time.Minute}, ""},
		{"interval 0", rule{Topic: "{device}", IntervalJSON: "/p", Factor: 1.2}, "d", `{"p":0}`, &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"no interval", rule{Topic: "{device}", IntervalJSON: "/p", Factor: 1.2}, "d", `{}`, &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"interval null", rule{Topic: "{device}", IntervalJSON: "/p"}, "d", `{"p":null}`, &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"interval in what is no JSON", rule{Topic: "{device}", IntervalJSON: "/p", Interval: time.Second}, "d", `x`, &sign{Meaning: convention.Beat, Device: "d", Interval: time.Second}, ""},
		{"interval negative", rule{Topic: "{device}", IntervalJSON: "/p"}, "d", `{"p":-1}`, nil, "json"},
		{"interval a text", rule{Topic: "{device}", IntervalJSON: "/p"}, "d", `{"p":"soon"}`, nil, "json"},
		{"interval infinite", rule{Topic: "{device}", IntervalJSON: "/p"}, "d", `{"p":1e999}`, nil, "json"},
		{"keep alive", rule{Topic: "{device}", KeepaliveJSON: "/k"}, "d", `{"k":5}`, &sign{Meaning: convention.Beat, Device: "d", Timeout: 7500 * time.Millisecond}, ""},
		{"keep alive of most of a year", rule{Topic: "{device}", KeepaliveJSON: "/k"}, "d", `{"k":31000000}`, &sign{Meaning: convention.Beat, Device: "d", Timeout: liveness.Never}, ""},
		{"factor of a year", rule{Topic: "{device}", IntervalJSON: "/i", Factor: 1000}, "d", `{"i":31000000}`, &sign{Meaning: convention.Beat, Device: "d", Interval: 31_000_000 * time.Second, Timeout: liveness.Never}, ""},
		{"keep alive 0", rule{Topic: "{device}", KeepaliveJSON: "/k"}, "d", `{"k":0}`, &sign{Meaning: convention.Beat, Device: "d", Timeout: convention.Never}, ""},
		{"ttd", rule{Topic: "{device}", TTDJSON: "/t"}, "d", `{"t":20}`, &sign{Meaning: convention.Online, Device: "d", Timeout: 20 * time.Second}, ""},
		{"ttd until further notice", rule{Topic: "{device}", TTDJSON: "/t"}, "d", `{"t":-1}`, &sign{Meaning: convention.Online, Device: "d", Timeout: convention.Never}, ""},
		{"ttd over", rule{Topic: "{device}", TTDJSON: "/t"}, "d", `{"t":0}`, &sign{Meaning: convention.Bye, Device: "d"}, ""},
		{"ttd nonsense", rule{Topic: "{device}", TTDJSON: "/t"}, "d", `{"t":-2}`, nil, "json"},
		{"sleep", rule{Topic: "{device}", SleepJSON: "/s", Cases: list{{Means: convention.Sleep}}}, "d", `{"s":3600}`, &sign{Meaning: convention.Sleep, Device: "d", Length: time.Hour}, ""},
		{"sleep of unknown length", rule{Topic: "{device}", SleepJSON: "/s", Cases: list{{Means: convention.Sleep}}}, "d", `{"s":-1}`, &sign{Meaning: convention.Sleep, Device: "d"}, ""},
		{"sleep without length", rule{Topic: "{device}", SleepJSON: "/s", Cases: list{{Means: convention.Sleep}}}, "d", `sleeping`, &sign{Meaning: convention.Sleep, Device: "d"}, ""},
		{"no sleep", rule{Topic: "{device}", SleepJSON: "/s", Cases: list{{Means: convention.Sleep}}}, "d", `{"s":0}`, &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"epoch", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":1625572213873}`, &sign{Meaning: convention.Beat, Device: "d", Epoch: 1625572213873}, ""},
		{"epoch as a text", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":"7"}`, &sign{Meaning: convention.Beat, Device: "d", Epoch: 7}, ""},
		{"epoch with an exponent", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":1.5e3}`, &sign{Meaning: convention.Beat, Device: "d", Epoch: 1500}, ""},
		{"epoch as a time", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":"1970-01-01T00:00:02.000000005Z"}`, &sign{Meaning: convention.Beat, Device: "d", Epoch: 2_000_000_005}, ""},
		{"no epoch", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{}`, &sign{Meaning: convention.Beat, Device: "d"}, ""},
		{"epoch negative", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":-1}`, nil, "json"},
		{"epoch with a fraction", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":1.5}`, nil, "json"},
		{"epoch nonsense", rule{Topic: "{device}", EpochJSON: "/e"}, "d", `{"e":[]}`, nil, "json"},
		{"order nonsense", rule{Topic: "{device}", OrderJSON: "/o"}, "d", `{"o":[]}`, nil, "json"},
		{"order too long", rule{Topic: "{device}", OrderJSON: "/o"}, "d", `{"o":"` + strings.Repeat("x", 65) + `"}`, nil, "json"},

		{"deaf", rule{Topic: "{base}/state", Behind: "{base}", Cases: list{{Text: new("off"), Means: convention.Deaf}}}, "b/state", "off", &sign{Meaning: convention.Deaf, Behind: "b"}, ""},
		{"too large", rule{Topic: "{device}", Cases: states}, "d", strings.Repeat("x", convention.MaxPayload+1), nil, "payload"},
		{"too large, but not looked into", rule{Topic: "{device}"}, "d", strings.Repeat("x", convention.MaxPayload+1), &sign{Meaning: convention.Beat, Device: "d"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := apply(t, tt.rule, tt.topic, tt.payload)
			var rejected *convention.Rejected
			if (err != nil) != (tt.rejected != "") || err != nil && (!errors.As(err, &rejected) || rejected.Reason != tt.rejected) {
				t.Fatalf("failed with %v, want a rejection for %q", err, tt.rejected)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Apply() = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestFirstRuleDecides(t *testing.T) {
	rules, err := convention.New(convention.Spec{Name: "test", Rules: []convention.Rule{
		{Topic: "{device}/status", Cases: []convention.Case{{Text: new("off"), Means: convention.Offline}}},
		{Topic: "{device}/set", Cases: []convention.Case{{Means: convention.Ignore}}},
		{Topic: "{device}/{what}", QoS: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rules.Subscriptions(), []convention.Subscription{{Filter: "+/+", QoS: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("Subscriptions() = %v, want %v", got, want)
	}
	for _, tt := range []struct {
		topic, payload string
		retained       bool
		want           convention.Meaning
		why            string
	}{
		{"d/status", "off", false, convention.Offline, "rule 1 ({device}/status): the payload is off"},
		{"d/status", "what", false, convention.Ignore, "rule 1 ({device}/status): no case fits"},
		{"d/set", "1", true, convention.Ignore, "rule 2 ({device}/set): case 1 is for all others"},
		{"d/x", "1", true, convention.Beat, "rule 3 ({device}/{what}): any message counts; retained: may seed a state, is no heartbeat"},
	} {
		m := convention.Message{Topic: tt.topic, Payload: []byte(tt.payload), Retained: tt.retained}
		sign, err := one(t, rules, m, true)
		if err != nil || sign == nil || sign.Meaning != tt.want || sign.Why != tt.why {
			t.Errorf("%s %s: %+v, %v, want %s because %q", tt.topic, tt.payload, sign, err, tt.want, tt.why)
		}
	}
	if sign, err := one(t, rules, convention.Message{Topic: "elsewhere"}, true); sign != nil || err != nil {
		t.Errorf("a message of no rule: %+v, %v", sign, err)
	}
}

func TestOrder(t *testing.T) {
	rules, err := convention.New(convention.Spec{Name: "test", Rules: []convention.Rule{
		{Topic: "{device}/up", OrderJSON: "/o"},
		{Topic: "{device}/down", OrderJSON: "/o", Cases: []convention.Case{
			{JSON: "/why", Equals: []any{"taken"}, Means: convention.Ignore}, {Means: convention.Offline},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rules.ForgetAfter(2)
	for _, tt := range []struct {
		name, topic, payload string
		ok                   bool
	}{
		{"first", "n/up", `{"o":5}`, true},
		{"the same again", "n/up", `{"o":5}`, true},
		{"another rule, too late", "n/down", `{"o":4}`, false},
		{"ignored", "n/down", `{"o":9,"why":"taken"}`, true},
		{"ignored messages do not count", "n/up", `{"o":6}`, true},
		{"numbers, not text", "n/up", `{"o":"10"}`, true},
		{"a fraction", "n/up", `{"o":9.5}`, false},
		{"none", "n/up", `{}`, true},
		{"large whole numbers", "n/up", `{"o":9007199254740993}`, true},
		{"are exact", "n/up", `{"o":9007199254740992}`, false},
		{"a text", "t/up", `{"o":"000000000000000000A1"}`, true},
		{"a lesser text", "t/up", `{"o":"000000000000000000A0"}`, false},
		{"a time", "z/up", `{"o":"2026-01-02T00:30:00+01:00"}`, true},
		{"an earlier time", "z/up", `{"o":"2026-01-01T23:29:59Z"}`, false},
		{"a later time that is less as a text", "z/up", `{"o":"2026-01-01T23:31:00Z"}`, true},
		{"a fourth device", "y/up", `{"o":1}`, true},
		{"the first one is known", "n/up", `{"o":1}`, false},
		{"a fifth device", "x/up", `{"o":1}`, true},
		{"the first one is forgotten", "n/up", `{"o":1}`, true},
		{"a late one is not", "z/up", `{"o":"2026-01-01T23:30:00Z"}`, false},
	} {
		_, err := one(t, rules, convention.Message{Topic: tt.topic, Payload: []byte(tt.payload)}, false)
		var rejected *convention.Rejected
		if (err == nil) != tt.ok || err != nil && (!errors.As(err, &rejected) || rejected.Reason != "order") {
			t.Errorf("%s: %v, want taken: %v", tt.name, err, tt.ok)
		}
	}
}

func TestMistakes(t *testing.T) {
	type (
		rule = convention.Rule
		list = []convention.Case
	)
	for _, tt := range []struct {
		name  string
		rule  rule
		field string
		index int // of the case
		want  string
	}{
		{"no device", rule{Topic: "a/+/b"}, "topic", -1, "it captures no device: write {device} in topic, or device: from other captures"},
		{"bad topic", rule{Topic: "a/#/{device}"}, "topic", -1, "only be the last"},
		{"unknown capture", rule{Topic: "a/{id}", Device: "{device}"}, "device", -1, "captures no device; it captures id"},
		{"no captures", rule{Topic: "a/b", Device: "{device}"}, "device", -1, "write {device} in topic"},
		{"two devices", rule{Topic: "{device}", Device: "{device}", DeviceJSON: "/d"}, "device", -1, "the one or the other"},
		{"bad template", rule{Topic: "{device}", Device: "{device"}, "device", -1, "no counterpart"},
		{"bad pointer", rule{Topic: "x", DeviceJSON: "id"}, "device_json", -1, "write /id"},
		{"qos", rule{Topic: "{device}", QoS: 2}, "qos", -1, "0 or 1"},
		{"behind", rule{Topic: "{device}", Behind: "{base}"}, "behind", -1, "captures no base"},
		{"deaf without behind", rule{Topic: "x", Cases: list{{Means: convention.Deaf}}}, "behind", -1, "it is missing"},
		{"interval", rule{Topic: "{device}", Interval: -1}, "interval", -1, "at most a year"},
		{"timeout", rule{Topic: "{device}", Timeout: -2}, "timeout", -1, "write never"},
		{"timeout too short", rule{Topic: "{device}", Interval: time.Minute, Timeout: time.Minute}, "timeout", -1, "not longer than the interval"},
		{"factor", rule{Topic: "{device}", Interval: time.Minute, Factor: 1}, "factor", -1, "from 1 to 1000"},
		{"factor of nothing", rule{Topic: "{device}", Factor: 2}, "factor", -1, "no interval"},
		{"factor and timeout", rule{Topic: "{device}", Interval: time.Minute, Timeout: time.Hour, Factor: 2}, "factor", -1, "timeout already"},
		{"else without cases", rule{Topic: "{device}", Else: convention.Bye}, "else", -1, "no cases"},
		{"two conditions", rule{Topic: "{device}", Cases: list{{}, {Text: new("x"), Regex: "y"}}}, "regex", 1, "there is text already"},
		{"equals without json", rule{Topic: "{device}", Cases: list{{Text: new("x"), Equals: []any{1}}}}, "equals", 0, "goes with json"},
		{"equals an object", rule{Topic: "{device}", Cases: list{{JSON: "/x", Equals: []any{list{}}}}}, "equals", 0, "neither a text"},
		{"bad json", rule{Topic: "{device}", Cases: list{{JSON: "x"}}}, "json", 0, "write /x"},
		{"bad regex", rule{Topic: "{device}", Cases: list{{Regex: "("}}}, "regex", 0, "no regular expression"},
		{"long regex", rule{Topic: "{device}", Cases: list{{Regex: strings.Repeat("x", 1001)}}}, "regex", 0, "at most 1000"},
		{"unknown group", rule{Topic: "{device}", Cases: list{{Regex: "(?P<seconds>.)", Means: convention.Beat}}}, "regex", 0, `"seconds", which means nothing here`},
		{"unknown meaning", rule{Topic: "{device}", Cases: list{{Means: 99}}}, "means", 0, "no meaning 99"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := convention.New(convention.Spec{Name: "test", Rules: []convention.Rule{{Topic: "{device}/ok"}, tt.rule}})
			var field *convention.FieldError
			if !errors.As(err, &field) || field.Rule != 1 || field.Case != tt.index || field.Field != tt.field || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New() failed with %v (%+v), want %q about %s", err, field, tt.want, tt.field)
			}
		})
	}
	_, err := convention.New(convention.Spec{})
	if want := "name: it is missing\nrules: there are none; write one, as in topic: tele/{device}/LWT"; err == nil || err.Error() != want {
		t.Errorf("New() of nothing failed with %v, want %s", err, want)
	}
	_, err = convention.New(convention.Spec{Name: "x", Rules: []convention.Rule{{Topic: "x"}, {Topic: "{device}", Cases: []convention.Case{{JSON: "x"}}}}})
	if want := "rule 1: topic: it captures no device: write {device} in topic, or device: from other captures\n" +
		`rule 2: case 1: json: "x" is no JSON pointer (RFC 6901); write /x`; err == nil || err.Error() != want {
		t.Errorf("New() failed with\n%v, want\n%s", err, want)
	}
}

func TestMeaning(t *testing.T) {
	for m := convention.Ignore; m <= convention.Reported; m++ {
		word, err := m.MarshalText()
		var back convention.Meaning
		if err != nil || back.UnmarshalText(word) != nil || back != m {
			t.Errorf("%d is written %s (%v), which is read as %d", m, word, err, back)
		}
	}
	if _, err := convention.ParseMeaning("onlin"); err == nil || !strings.Contains(err.Error(), `did you mean "online"? (there are: ignore, beat, online`) {
		t.Errorf("ParseMeaning(onlin) failed with %v", err)
	}
}

func FuzzApply(f *testing.F) {
	cases := []convention.Case{
		{Text: new("online"), Means: convention.Online},
		{Empty: true, Means: convention.Gone},
		{Regex: `^sleep (?P<seconds>-?[0-9.]+)`, Means: convention.Sleep},
		{Regex: `^fail (?P<text>.*)`, Means: convention.Fail},
		{JSON: "/state", Equals: []any{"off", 0, false, nil}, Means: convention.Offline},
		{JSON: "/state", Means: convention.Online},
	}
	rules, err := convention.New(convention.Spec{Name: "fuzz", Rules: []convention.Rule{
		{Topic: "a/{device}", Cases: cases, Else: convention.Beat, IntervalJSON: "/i", Factor: 2, OrderJSON: "/o", EpochJSON: "/e"},
		{Topic: "b/{model}-{id}", Device: "{id}", Cases: cases, KeepaliveJSON: "/k"},
		{Topic: "c", DeviceJSON: "/d", TTDJSON: "/t"},
		{Topic: "{device...}/x"},
	}})
	if err != nil {
		f.Fatal(err)
	}
	for _, topic := range []string{"a/dev", "b/m-i", "c", "k/l/x"} {
		for _, payload := range []string{"online", "", "sleep 7", "sleep -1", "fail x", `{"state":"off","i":7,"o":1,"e":2,"k":5,"d":"x","t":-1}`, `{"state":0}`, `{"d":17,"t":0}`, "{"} {
			f.Add(topic, []byte(payload))
		}
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		for _, explain := range []bool{false, true} {
			signs := 0
			err := rules.Apply(convention.Message{Topic: topic, Payload: payload}, explain, func(s convention.Sign) {
				if signs++; s.Meaning != convention.Ignore && liveness.ValidateID(s.Device) != nil {
					t.Errorf("%q %q: the device is %q", topic, payload, s.Device)
				}
				if s.Timeout < convention.Never || s.Interval < 0 || s.Length < 0 || !explain && s.Meaning == convention.Ignore {
					t.Errorf("%q %q: %+v", topic, payload, s)
				}
				first := strings.HasPrefix(topic, "a/") && strings.Count(topic, "/") == 1 // it is the first rule that matches
				if state, ok := naiveAt(payload, []string{"state"}); ok && state == "off" && first && s.Meaning != convention.Offline {
					t.Errorf("%q %q: %s, want offline", topic, payload, s.Meaning)
				}
			})
			var rejected *convention.Rejected
			if signs > 1 || err != nil && (signs > 0 || !errors.As(err, &rejected) || rejected.Reason == "" || rejected.Detail == "") {
				t.Errorf("%q %q: %d signs, and %v", topic, payload, signs, err)
			}
		}
	})
}

// A strict convention rejects what it does not understand; what it was told to ignore is understood.
func TestStrict(t *testing.T) {
	c, err := convention.New(convention.Spec{Name: "x", Strict: true, Rules: []convention.Rule{
		{Topic: "{device}/status", Cases: []convention.Case{{Text: new("up"), Means: convention.Online}, {Text: new("busy"), Means: convention.Ignore}}},
		{Topic: "{device}/state", Cases: []convention.Case{{Text: new("up"), Means: convention.Online}}, Else: convention.Beat},
		{Topic: "{device}/any"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ topic, payload, reason string }{
		{"d/status", "up", ""},
		{"d/status", "busy", ""},
		{"d/status", "", ""},
		{"d/status", "down", convention.NoCase},
		{"d/state", "down", ""},
		{"d/any", "down", ""},
		{"d/other", "down", ""},
	} {
		for _, explain := range []bool{false, true} {
			err := c.Apply(convention.Message{Topic: tt.topic, Payload: []byte(tt.payload)}, explain, func(convention.Sign) {})
			rejected, ok := errors.AsType[*convention.Rejected](err)
			if ok != (tt.reason != "") || ok && rejected.Reason != tt.reason {
				t.Errorf("Apply(%s, %q) = %v, want a rejection for %q", tt.topic, tt.payload, err, tt.reason)
			}
		}
	}
}

// A gateway publishes what it remembers of a device that it has reported as offline: that is no heartbeat.
func TestReported(t *testing.T) {
	const beat, online, offline, reported, gone, missed, nothing = "beat", "online", "offline", "reported", "gone", "missed", ""
	for _, tt := range []struct {
		name     string
		do, want []string
	}{
		{"remembered", []string{reported, beat, beat}, []string{reported, nothing, nothing}},
		{"online again", []string{reported, beat, online, beat}, []string{reported, nothing, online, beat}},
		{"a last will behind it", []string{reported, offline, beat}, []string{reported, offline, beat}},
		{"removed", []string{reported, gone, beat}, []string{reported, gone, beat}},
		{"messages were missed", []string{reported, missed, beat}, []string{reported, nothing, beat}},
		{"retained", []string{"retained", beat}, []string{reported, beat}},
		{"by a rule that cannot tell that it is online", []string{"other", beat}, []string{reported, beat}},
		{"another device", []string{"neighbour", beat}, []string{reported, beat}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := convention.New(convention.Spec{Name: "x", Rules: []convention.Rule{
				{Topic: "{device}/status", Cases: []convention.Case{
					{Text: new(online), Means: convention.Online},
					{Text: new(offline), Means: convention.Offline},
					{Text: new(reported), Means: convention.Reported},
					{Text: new(gone), Means: convention.Gone},
				}},
				{Topic: "{device}/other", Cases: []convention.Case{{Means: convention.Reported}}},
				{Topic: "{device}/state"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			for i, do := range tt.do {
				m := convention.Message{Topic: "d/status", Payload: []byte(do)}
				switch do {
				case beat:
					m.Topic = "d/state"
				case "retained":
					m.Payload, m.Retained = []byte(reported), true
				case "other":
					m.Topic = "d/other"
				case "neighbour":
					m.Topic, m.Payload = "e/status", []byte(reported)
				case missed:
					c.Connected(nil, nil)
				}
				got := nothing
				if err := c.Apply(m, i%2 == 0, func(s convention.Sign) {
					if s.Meaning != convention.Ignore {
						got = s.Meaning.String()
					}
				}); err != nil {
					t.Fatal(err)
				}
				if got != tt.want[i] {
					t.Errorf("message %d, %s, means %q, want %q", i, do, got, tt.want[i])
				}
			}
		})
	}
}
