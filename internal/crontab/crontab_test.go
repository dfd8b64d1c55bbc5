package crontab_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holter-iot/holter/internal/crontab"
)

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) } // a Thursday

func read(t *testing.T, text string, o crontab.Options) *crontab.File {
	t.Helper()
	f, err := crontab.Read(strings.NewReader(text), o, start())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A user's crontab, as crontab(5) of Vixie cron and cronie describes it.
func TestRead(t *testing.T) {
	f := read(t, `# m h  dom mon dow   command
	  # indented
MAILTO = "ops@example.com"
PATH=/usr/local/bin:/usr/bin
30 2 * * *  /usr/local/bin/backup.sh --full
CRON_TZ = Europe/Berlin
 */5	9-17 * * mon-fri	cd /srv/app && ./poll >> /var/log/poll.log 2>&1 # often
PATH='/bin'
SHELL=/bin/bash
HOME=/srv
RANDOM_DELAY=10
@daily X=1 ./poll --all
0 0 1 1 * date +\%F > "/tmp/a b"
`+"\n@every 90s [ -x /bin/x ]\r\n", crontab.Options{Zone: "UTC"})
	if len(f.Errors) > 0 || !f.Mails || f.Others != 0 {
		t.Errorf("%v, mails %v, others %d", f.Errors, f.Mails, f.Others)
	}
	var got []string
	for _, e := range f.Entries {
		got = append(got, fmt.Sprint(e.Line, "|", e.Name, "|", e.When, "|", e.Zone, "|", e.Next.UTC().Format(time.RFC3339), "|", e.Command, "|", e.Shell, "|", e.Env, "|", e.Dir, "|", e.Delay))
	}
	want := []string{
		"5|backup.sh|30 2 * * *|UTC|2026-01-01T02:30:00Z|/usr/local/bin/backup.sh --full|/bin/sh|[PATH=/usr/local/bin:/usr/bin]||0s",
		"7|poll|*/5 9-17 * * mon-fri|Europe/Berlin|2026-01-01T08:00:00Z|cd /srv/app && ./poll >> /var/log/poll.log 2>&1 # often|/bin/sh|[PATH=/usr/local/bin:/usr/bin]||0s",
		"12|poll-2|@daily|Europe/Berlin|2026-01-01T23:00:00Z|X=1 ./poll --all|/bin/bash|[PATH=/bin SHELL=/bin/bash HOME=/srv]|/srv|10m0s",
		`13|date|0 0 1 1 *|Europe/Berlin|2026-12-31T23:00:00Z|date +%F > "/tmp/a b"|/bin/bash|[PATH=/bin SHELL=/bin/bash HOME=/srv]|/srv|10m0s`,
		"15|command|@every 90s|Europe/Berlin|2026-01-01T00:01:30Z|[ -x /bin/x ]|/bin/bash|[PATH=/bin SHELL=/bin/bash HOME=/srv]|/srv|10m0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The system's crontab of Debian has a column of users.
func TestReadSystem(t *testing.T) {
	const text = `SHELL=/bin/sh
17 *	* * *	root	cd / && run-parts --report /etc/cron.hourly
25 6	* * *	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
0 4 * * *	www-data php cron.php
0 4 * * *	root
`
	f := read(t, text, crontab.Options{User: "root", Zone: "UTC", Prefix: "etc-"})
	if len(f.Entries) != 2 || f.Others != 1 || f.Entries[0].Name != "etc-run-parts" || f.Entries[1].Name != "etc-test" ||
		f.Entries[0].Command != "cd / && run-parts --report /etc/cron.hourly" {
		t.Errorf("%+v", f)
	}
	if len(f.Errors) != 1 || f.Errors[0].Error() != "5:15: there is no command after the times" {
		t.Errorf("errors %v", f.Errors)
	}
}

func TestReadErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a wrong field", "0 25 * * * x", "1:3: field 2 (hour) is 25: want 0 to 23"},
		{"the last one", "\n  0  1 * *   mon-fry x", "2:14: field 5 (day of week) is mon-fry: fry is wrong, want 0 to 7 or SUN to SAT"},
		{"never", "0 0 30 2 * x", "1:1: it never fires: fields 3 and 4 (day of month, month) are 30 and 2, and no such month has such a day"},
		{"no command", "0 0 1 2 *  ", "1:12: there is no command after the times"},
		{"too few fields", "0 0 1 2", "1:1: the expression has 4 fields: want 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)"},
		{"another white space", "*/5 * * * *\vcd a; b", `1:12: "\v" stands among the times: want a blank or a tab between two of them`},
		{"@reboot", "@Reboot x", "1:1: @reboot has no time: a schedule runs nothing when a machine starts; that is for the service manager of its system"},
		{"a nickname", "@often x", "1:1: @often is not known: want @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every and a period"},
		{"input", "0 0 * * * mail x%body", "1:17: % begins the input of the command, and schedules give none: write \\% for the character, or printf '…' | before the command"},
		{"a time zone", "CRON_TZ=Europe/Berln", `1:9: time zone "Europe/Berln" is not known here: want a name of the IANA time zone database such as Europe/Berlin`},
		{"a delay", "RANDOM_DELAY = -1", `1:16: RANDOM_DELAY is "-1": want 0 to 1440 minutes`},
		{"cronie's random minute", "0~59 1 * * * x", "1:1: field 1 (minute) is 0~59: want 0 to 59"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := read(t, tt.text+"\n0 1 * * * fine", crontab.Options{Zone: "UTC"})
			if len(f.Errors) != 1 || f.Errors[0].Error() != tt.want {
				t.Errorf("errors %v, want %s", f.Errors, tt.want)
			}
			if len(f.Entries) != 1 || f.Entries[0].Name != "fine" {
				t.Errorf("entries %+v", f.Entries)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := crontab.Read(iotest.ErrReader(broken), crontab.Options{}, start()); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	if _, err := crontab.Read(io.LimitReader(zeros{}, crontab.MaxSize+1), crontab.Options{}, start()); err == nil {
		t.Error("a file that is too large: no error")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func FuzzRead(f *testing.F) {
	for _, text := range []string{"PATH=/bin\n0 0 * * * x", "@daily x\\%%", "=", "'a'=b", "0 0 * * * root x", "@every", "*/5 * * * *\tcd a; b", "\x00", "A=\"", "cd cd cd"} {
		f.Add(text, "")
		f.Add(text, "root")
	}
	f.Fuzz(func(t *testing.T, text, user string) {
		file := read(t, text, crontab.Options{User: user, Zone: "UTC"})
		names := make(map[string]bool)
		for _, e := range file.Entries {
			if names[e.Name] || e.Name == "" || len(e.Name) > 64 || e.Command == "" || e.Line < 1 {
				t.Errorf("%q: entry %+v", text, e)
			}
			names[e.Name] = true
		}
		for _, err := range file.Errors {
			of, ok := errors.AsType[*crontab.Error](err)
			if !ok || of.Line < 1 || of.Line > strings.Count(text, "\n")+1 || of.Column < 1 || of.Column > len(text)+1 {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
