package crontab_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/crontab"
)

// What the tests of github.com/aptible/supercronic (crontab/crontab_test.go) ask of settings, told anew. A setting is for the lines
// below it, and of the time zone and mails a command sees nothing.
func TestSupercronicSettings(t *testing.T) {
	for _, tt := range []struct {
		name, text  string
		env         []string
		shell, zone string
	}{
		{"none", "", nil, "/bin/sh", "UTC"},
		{"an empty line", "\n", nil, "/bin/sh", "UTC"},
		{"a value", "FOO=bar", []string{"FOO=bar"}, "/bin/sh", "UTC"},
		{"double quotes", `FOO="bar"`, []string{"FOO=bar"}, "/bin/sh", "UTC"},
		{"single quotes", "FOO='bar'", []string{"FOO=bar"}, "/bin/sh", "UTC"},
		{"blanks within quotes", "FOO=' bar '", []string{"FOO= bar "}, "/bin/sh", "UTC"},
		{"one quote", "FOO='", []string{"FOO='"}, "/bin/sh", "UTC"},
		{"two quotes", "FOO=''", []string{"FOO="}, "/bin/sh", "UTC"},
		{"quotes of two kinds", `FOO='bar"`, []string{`FOO='bar"`}, "/bin/sh", "UTC"},
		{"no value", "FOO=", []string{"FOO="}, "/bin/sh", "UTC"},
		{"another = in the value", "FOO=a=b", []string{"FOO=a=b"}, "/bin/sh", "UTC"},
		{"# in the value", "FOO=bar # baz", []string{"FOO=bar # baz"}, "/bin/sh", "UTC"},
		{"twice", "FOO=bar\nBAR=1\nFOO=baz", []string{"BAR=1", "FOO=baz"}, "/bin/sh", "UTC"},
		{"a shell", "SHELL=/bin/some", []string{"SHELL=/bin/some"}, "/bin/some", "UTC"},
		{"a time zone", "CRON_TZ=Europe/Amsterdam", nil, "/bin/sh", "Europe/Amsterdam"},
		{"a time zone in quotes", `CRON_TZ="Asia/Tokyo"`, nil, "/bin/sh", "Asia/Tokyo"},
		{"mails", "MAILTO=ops", nil, "/bin/sh", "UTC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := read(t, tt.text+"\n* * * * * foo", crontab.Options{Zone: "UTC"})
			if len(f.Errors) != 0 || len(f.Entries) != 1 {
				t.Fatalf("errors %v, entries %+v, want one entry", f.Errors, f.Entries)
			}
			if e := f.Entries[0]; !slices.Equal(e.Env, tt.env) || e.Shell != tt.shell || e.Zone != tt.zone {
				t.Errorf("environment %q, shell %s, zone %s, want %q, %s, %s", e.Env, e.Shell, e.Zone, tt.env, tt.shell, tt.zone)
			}
		})
	}
}

// What they ask of lines with commands. Where supercronic reads a second and a year, cron reads the command.
func TestSupercronicEntries(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no line", "", ""},
		{"comments and blanks only", "# * * * * * commented\n\n\n  # some\n\t\n\t# more\n", ""},
		{"a # in the command", "* * * * * foo some # qux", "* * * * *|foo some # qux"},
		{"indented after comments", "# * * * * * * commented\n\n  # some\n\t\n  \t  */2 * * * * will run", "*/2 * * * *|will run"},
		{"blanks before the command", "* * * * *        \twith plenty of whitespace", "* * * * *|with plenty of whitespace"},
		{"blanks in the command", "* * * * * printf 'a   b\tc'", "* * * * *|printf 'a   b\tc'"},
		{"tabs", "*\t*\t*\t*\t*\ttabs everywhere\n", "* * * * *|tabs everywhere"},
		{"a nickname", "@hourly foo1 foo2 foo3 foo4 foo5 foo6", "@hourly|foo1 foo2 foo3 foo4 foo5 foo6"},
		{"a = in the command", "* * * * * FOO=bar baz", "* * * * *|FOO=bar baz"},
		{"settings between", "* * * * * foo\nSHELL=some\n1 1 1 1 1 bar\nKEY=VAL", "* * * * *|foo\n1 1 1 1 1|bar"},
		{"the sixth field is the command", "* * * * * * with year", "* * * * *|* with year"},
		{"so are the sixth and the seventh", "* * * * * * * with seconds", "* * * * *|* * with seconds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := read(t, tt.text, crontab.Options{Zone: "UTC"})
			var got []string
			for _, e := range f.Entries {
				got = append(got, e.When+"|"+e.Command)
			}
			if got := strings.Join(got, "\n"); len(f.Errors) != 0 || got != tt.want {
				t.Errorf("errors %v, entries %q, want %q", f.Errors, got, tt.want)
			}
		})
	}
}

// Lines that it refuses: here the others are read nevertheless.
func TestSupercronicErrors(t *testing.T) {
	for _, tt := range []struct {
		text string
		at   [2]int
	}{
		{"* foo \n", [2]int{1, 1}},
		{"* some * * *  more\n", [2]int{1, 3}},
		{"* some * * *  \n", [2]int{1, 3}},
		{"FOO\n", [2]int{1, 1}},
		{"FOO BAR=baz\n", [2]int{1, 1}},
		{"fine=1\n* * * * *\n", [2]int{2, 10}},
		{"45 4 * * 6-8 x\n", [2]int{1, 10}},
		{"@hourly\n", [2]int{1, 8}},
	} {
		t.Run(tt.text, func(t *testing.T) {
			f := read(t, tt.text+"0 1 * * * fine", crontab.Options{Zone: "UTC"})
			if len(f.Entries) != 1 || len(f.Errors) != 1 {
				t.Fatalf("errors %v, entries %+v, want one of each", f.Errors, f.Entries)
			}
			err, ok := errors.AsType[*crontab.Error](f.Errors[0])
			if !ok || [2]int{err.Line, err.Column} != tt.at {
				t.Errorf("error %v, want it at %v", f.Errors[0], tt.at)
			}
		})
	}
}
