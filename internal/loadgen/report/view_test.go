package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

func TestSummary(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   func() *report.Final
	}{
		{"passed", func() *report.Final { return final(t, false) }},
		{"failed", func() *report.Final { return final(t, true) }},
		{"nothing", func() *report.Final { return &report.Final{Run: run(), Ended: began} }},
		{"unverified", func() *report.Final {
			f := final(t, false)
			f.Verdicts = nil
			for i := range f.Samples {
				f.Samples[i].Score = nil
			}
			return f
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := report.WriteSummary(&b, tt.of()); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsRune(b.String(), '\x1b') {
				t.Error("the text has control characters of somebody else")
			}
			golden(t, "summary_"+tt.name+".txt", b.Bytes())
		})
	}
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	v := report.NewLines(&b, run())
	for _, s := range picked(samples(true)) {
		if err := v.Show(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "lines.txt", b.Bytes())
	fields := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if n := len(strings.Fields(line)); fields != 0 && n != fields {
			t.Errorf("%d columns, and %d before, in %q", n, fields, line)
		} else {
			fields = n
		}
	}
}

// picked are some samples of all phases, with all notes.
func picked(all []report.Sample) []report.Sample {
	var some []report.Sample
	for i := range all {
		if i%12 == 5 || len(all[i].Notes) > 0 || i == len(all)-1 {
			some = append(some, all[i])
		}
	}
	return some
}

func TestObjects(t *testing.T) {
	var b bytes.Buffer
	v := report.NewObjects(&b, run())
	f := final(t, true)
	for i := range f.Samples {
		if err := v.Show(&f.Samples[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.End(f); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(b.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		kind, _ := object["type"].(string)
		kinds[kind]++
		switch kind {
		case "start":
			if object["schema"] != report.Schema || object["fleet"] == nil {
				t.Errorf("start is %s", line)
			}
		case "sample":
			if object["at_s"] == nil || object["per_second"] == nil || object["errors"] == nil {
				t.Errorf("a sample is %s", line)
			}
		case "result":
			if object["samples"] != nil || object["outcome"] == nil || object["took_s"] == nil || object["verdicts"] == nil {
				t.Errorf("the result is %s", line)
			}
		}
	}
	if kinds["start"] != 1 || kinds["sample"] != len(f.Samples) || kinds["result"] != 1 || len(kinds) != 3 {
		t.Errorf("objects are %v", kinds)
	}
}

func TestObjectsOfARunThatNeverBegan(t *testing.T) {
	var b bytes.Buffer
	if err := report.NewObjects(&b, run()).End(&report.Final{Run: run()}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want start and result", n)
	}
}

// frame is the last screen that was drawn, without the characters that steer a terminal. It fails the test if something is left that
// should have been steered.
func frame(t *testing.T, output string) string {
	t.Helper()
	at := strings.LastIndex(output, "\x1b[?2026h\x1b[H")
	if at < 0 {
		t.Fatalf("no frame in %q", output)
	}
	text, _, _ := strings.Cut(output[at:], "\x1b[J")
	for line := range strings.SplitSeq(text, "\r\n") {
		if !strings.HasSuffix(line, "\x1b[K") {
			t.Errorf("line %q is not cleared to its end", line)
		}
	}
	text = strings.NewReplacer("\x1b[?2026h\x1b[H", "", "\x1b[K", "", "\r\n", "\n").Replace(text)
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestScreen(t *testing.T) {
	for _, tt := range []struct {
		name           string
		columns, lines int
		upTo           int
		config         report.ScreenConfig
	}{
		{"ramp", 100, 30, 5, report.ScreenConfig{Plain: true}},
		{"trouble", 120, 40, 100, report.ScreenConfig{Plain: true}},
		{"narrow", 50, 40, 100, report.ScreenConfig{Plain: true}},
		{"low", 80, 14, 100, report.ScreenConfig{Plain: true}},
		{"ascii", 80, 24, 60, report.ScreenConfig{Plain: true, ASCII: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			tt.config.Size = func() (columns, lines int) { return tt.columns, tt.lines }
			v := report.NewScreen(&b, run(), tt.config)
			for _, s := range samples(true)[:tt.upTo] {
				if err := v.Show(&s); err != nil {
					t.Fatal(err)
				}
			}
			text := frame(t, b.String())
			if strings.ContainsRune(text, '\x1b') {
				t.Errorf("something else steers the terminal: %q", text)
			}
			if n := strings.Count(text, "\n"); n > tt.lines {
				t.Errorf("%d lines on a screen of %d", n, tt.lines)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(line) - 1; n > tt.columns {
					t.Errorf("%d columns on a screen of %d: %q", n, tt.columns, line)
				}
				if tt.config.ASCII && strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
					t.Errorf("%q is not ASCII", line)
				}
			}
			golden(t, "screen_"+tt.name+".txt", []byte(text))
		})
	}
}

func TestScreenLeavesTheTerminalAsItWas(t *testing.T) {
	var b bytes.Buffer
	v := report.NewScreen(&b, run(), report.ScreenConfig{})
	if err := v.Close(); err != nil || b.Len() > 0 {
		t.Fatalf("Close of a screen that was never drawn wrote %q, %v", b.String(), err)
	}
	s := samples(true)[60]
	if err := v.Show(&s); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.End(final(t, true)); err != nil {
		t.Fatal(err)
	}
	output := b.String()
	for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"}, {"\x1b[?7l", "\x1b[?7h"}} {
		if strings.Count(output, pair[0]) != 1 || strings.Count(output, pair[1]) != 1 {
			t.Errorf("%q and %q are not there once each", pair[0], pair[1])
		}
		if strings.Index(output, pair[0]) > strings.Index(output, pair[1]) {
			t.Errorf("%q comes after %q", pair[0], pair[1])
		}
	}
	if strings.LastIndex(output, "FAILED") < strings.Index(output, "\x1b[?1049l") {
		t.Error("the summary is on the screen that was left")
	}
	if !strings.Contains(output, "\x1b[31m") {
		t.Error("no colour")
	}
}

// full is a writer whose disk is full.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestViewsReportThatTheyCannotWrite(t *testing.T) {
	s := samples(false)[0]
	for name, v := range map[string]report.View{
		"objects": report.NewObjects(full{}, run()), "lines": report.NewLines(full{}, run()),
		"screen": report.NewScreen(full{}, run(), report.ScreenConfig{}),
	} {
		if err := v.Show(&s); !errors.Is(err, errFull) {
			t.Errorf("Show of %s = %v, want %v", name, err, errFull)
		}
		if err := v.End(final(t, false)); !errors.Is(err, errFull) {
			t.Errorf("End of %s = %v, want %v", name, err, errFull)
		}
	}
}
