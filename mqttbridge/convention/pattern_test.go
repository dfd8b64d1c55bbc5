package convention_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

func TestMatch(t *testing.T) {
	type found = map[string]string
	for _, tt := range []struct {
		name, pattern, topic string
		want                 found // nil: it does not fit
	}{
		{"fixed", "a/b", "a/b", found{}},
		{"fixed, longer", "a/b", "a/b/c", nil},
		{"fixed, shorter", "a/b", "a", nil},
		{"one capture", "tele/{device}/LWT", "tele/plug-1/LWT", found{"device": "plug-1"}},
		{"a capture takes one level", "tele/{device}/LWT", "tele/a/b/LWT", nil},
		{"a capture is not empty", "tele/{device}/LWT", "tele//LWT", nil},
		{"plus may be empty", "tele/+/LWT", "tele//LWT", found{}},
		{"text around a capture", "a/x{n}y/b", "a/x12y/b", found{"n": "12"}},
		{"text around a capture, empty", "a/x{n}y/b", "a/xy/b", nil},
		{"split at the last hyphen", "shellies/{model}-{id}/online", "shellies/shelly-plug-s-7AE2/online", found{"model": "shelly-plug-s", "id": "7AE2"}},
		{"split, the last not empty", "{a}-{b}", "x--", found{"a": "x", "b": "-"}},
		{"split, nothing left", "{a}-{b}", "-x", nil},
		{"three", "{a}-{b}-{c}", "1-2-3-4", found{"a": "1-2", "b": "3", "c": "4"}},
		{"overlapping text", "{a}--{b}", "x---y", found{"a": "x-", "b": "y"}},
		{"hash", "{device}/#", "d/x/y", found{"device": "d"}},
		{"hash fits the parent", "{device}/#", "d", found{"device": "d"}},
		{"fixed hash fits the parent", "a/b/#", "a/b", found{}},
		{"fixed hash needs the whole level", "a/b/#", "a/bc", nil},
		{"hash alone", "#", "a/b", found{}},
		{"wildcards do not reach $", "#", "$SYS/x", nil},
		{"nor do captures", "{a}/x", "$SYS/x", nil},
		{"nor long ones", "{a...}/x", "$SYS/y/x", nil},
		{"but text does", "$SYS/{a}", "$SYS/x", found{"a": "x"}},
		{"deeper $ is a letter", "a/{b}", "a/$b", found{"b": "$b"}},
		{"several levels", "z/{device...}/availability", "z/kitchen/floor/lamp/availability", found{"device": "kitchen/floor/lamp"}},
		{"several levels, one", "z/{device...}/availability", "z/lamp/availability", found{"device": "lamp"}},
		{"several levels, none", "z/{device...}/availability", "z/availability", nil},
		{"several levels, an empty one", "z/{device...}/availability", "z//availability", nil},
		{"several levels at the end", "z/{device...}", "z/a/b", found{"device": "a/b"}},
		{"several levels at the end, none", "z/{device...}", "z", nil},
		{"several levels and more", "{base}/{device...}/set/{key}", "z/a/set/b/set/c", found{"base": "z", "device": "a/set/b", "key": "c"}},
		{"shared", "$share/g/tele/{device}/LWT", "tele/a/LWT", found{"device": "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := convention.Match(tt.pattern, tt.topic)
			if err != nil || ok != (tt.want != nil) || !maps.Equal(got, tt.want) {
				t.Errorf("Match(%q, %q) = %v, %v, %v, want %v", tt.pattern, tt.topic, got, ok, err, tt.want)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct{ pattern, want string }{
		{"tele/{device}/LWT", "tele/+/LWT"},
		{"shellies/{model}-{id}/online", "shellies/+/online"},
		{"z/{device...}", "z/#"},
		{"z/{device...}/availability", "z/#"},
		{"{a}/#", "+/#"},
		{"$share/g/{a}/x", "$share/g/+/x"},
	} {
		if got, err := convention.Filter(tt.pattern); got != tt.want || err != nil {
			t.Errorf("Filter(%q) = %q, %v, want %q", tt.pattern, got, err, tt.want)
		}
	}
}

func TestPatternMistakes(t *testing.T) {
	for _, tt := range []struct{ name, pattern, want string }{
		{"none", "", "missing"},
		{"hash in the middle", "a/#/b", "only be the last; write {name...}"},
		{"part of a level", "a/b+", "whole level"},
		{"no end", "a/{device", "no counterpart"},
		{"no start", "a/device}", "no counterpart"},
		{"nested", "a/{a{b}}", "no counterpart"},
		{"no name", "a/{}", "no name"},
		{"no long name", "a/{...}", "no name"},
		{"bad name", "a/{Device}", "lower case"},
		{"digit first", "a/{1a}", "lower case"},
		{"twice", "{a}/{a}", "twice"},
		{"adjacent", "{a}{b}/c", "nothing stands between"},
		{"long one in a text", "a/x{b...}", "stand alone"},
		{"two long ones", "{a...}/x/{b...}", "only one"},
		{"long one and hash", "{a...}/x/#", "use one of them"},
		{"dollar and capture", "$SYS{x}/a", "begins with $"},
		{"nine", "{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}", "more than 8"},
		{"share without topic", "$share/g", "$share/group/topic"},
		{"NUL", "a/\x00", "NUL"},
		{"not UTF-8", "a/\xff", "UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := convention.Filter(tt.pattern)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Filter(%q) failed with %v, want %q in it", tt.pattern, err, tt.want)
			}
		})
	}
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		filter, other string
		want          bool
	}{
		{"a/b", "a/b", true},
		{"a/+", "a/b", true},
		{"a/b", "a/+", false},
		{"a/#", "a/b/c", true},
		{"a/#", "a/+/#", true},
		{"a/#", "a", true},
		{"a/#", "b", false},
		{"a/+", "a/#", false},
		{"a/+", "a/b/c", false},
		{"#", "$SYS/a", false},
		{"+/a", "$SYS/a", false},
		{"$SYS/#", "$SYS/a", true},
		{"a/#", "$share/g/a/b", false},
	} {
		if got := convention.Covers(tt.filter, tt.other); got != tt.want {
			t.Errorf("Covers(%q, %q) = %v", tt.filter, tt.other, got)
		}
	}
}

// naive turns a pattern into a regular expression.
func naive(pattern string) *regexp.Regexp {
	if strings.HasPrefix(pattern, "$share/") {
		pattern = strings.SplitN(pattern, "/", 3)[2]
	}
	capture := regexp.MustCompile(`\\\{([a-z0-9_]+)(\\\.\\\.\\\.)?\\\}`)
	out := capture.ReplaceAllStringFunc(regexp.QuoteMeta(pattern), func(s string) string {
		m := capture.FindStringSubmatch(s)
		if m[2] != "" {
			return "(?P<" + m[1] + ">.+)"
		}
		return "(?P<" + m[1] + ">[^/]+)"
	})
	levels := strings.Split(out, "/")
	for i, l := range levels {
		if l == `\+` {
			levels[i] = "[^/]*"
		}
	}
	out = strings.Join(levels, "/")
	if out == "#" {
		out = ".*"
	} else if head, ok := strings.CutSuffix(out, "/#"); ok {
		out = head + "(/.*)?"
	}
	return regexp.MustCompile("(?s)^" + out + "$")
}

func FuzzMatch(f *testing.F) {
	for _, pattern := range []string{"tele/{device}/LWT", "shellies/{model}-{id}/online", "z/{device...}/set/{k}", "{a}/#", "+/x", "#", "{a}-{b}-{c}", "x{a...}", "$share/g/a/{b}"} {
		for _, topic := range []string{"tele/a/LWT", "shellies/x-y-z/online", "z/a/b/set/c", "a", "$SYS/x", "1-2-3-4", ""} {
			f.Add(pattern, topic)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		found, ok, err := convention.Match(pattern, topic)
		if err != nil || len(pattern) > 500 || len(topic) > 5000 || strings.ToValidUTF8(topic, "") != topic {
			return
		}
		re := naive(pattern)
		want := re.FindStringSubmatch(topic)
		rest := pattern
		if strings.HasPrefix(pattern, "$share/") {
			rest = strings.SplitN(pattern, "/", 3)[2]
		}
		if topic == "" || topic[0] == '$' && rest[0] != '$' {
			want = nil
		}
		if ok != (want != nil) {
			t.Fatalf("Match(%q, %q) = %v, a regular expression says %v", pattern, topic, ok, want)
		}
		for i, name := range re.SubexpNames() {
			if ok && name != "" && found[name] != want[i] {
				t.Fatalf("Match(%q, %q): {%s} is %q, a regular expression says %q", pattern, topic, name, found[name], want[i])
			}
		}
		if ok {
			filter, err := convention.Filter(pattern)
			if err != nil || !convention.Covers(filter, topic) && !strings.HasPrefix(filter, "$share/") && !strings.ContainsAny(topic, "+#") {
				t.Fatalf("Match(%q, %q), but the filter %q does not cover it (%v)", pattern, topic, filter, err)
			}
		}
	})
}
