package page_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/replay/page"
)

func answer(field replay.Field) *replay.Answer {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &replay.Answer{
		Field: field, Group: "<meters>", From: from, To: from.Add(7 * 24 * time.Hour), Devices: 10, DeviceMonths: 2.3, Silences: 50, ExactFrom: 90_000,
		Today:   replay.Point{Value: 180_000, Least: 180_000, Most: 180_000, FalseAlarms: 3, Rate: 1.3, Mean: 180_000},
		Learned: &replay.Point{Value: 141_000, FalseAlarms: 4, Rate: 1.7, Mean: 141_000},
		Points: []replay.Point{
			{Value: 60_000, Share: share(field, 0.1), Bound: true, FalseAlarms: 41, Rate: 18, Mean: 60_000, Sentence: "60s"},
			{Value: 120_000, Share: share(field, 0.2), FalseAlarms: 0},
			{Value: 600_000, Share: share(field, 0.5), Lates: 2, Closed: 3, GroupOutages: 1},
		},
		Sentence: "1m instead of 3m: at least 164 more false alarms a month",
	}
}

func share(field replay.Field, v float64) float64 {
	if field == replay.OutageShare {
		return v
	}
	return 0
}

func TestPage(t *testing.T) {
	for _, field := range []replay.Field{replay.Timeout, replay.LateAfter, replay.CloseGrace, replay.OutageShare} {
		var b strings.Builder
		if err := page.WriteHTML(&b, answer(field)); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, want := range []string{"<svg", `role="img"`, "prefers-color-scheme: dark", "≥ 41", "&lt;meters&gt;", `class="today"`, "at least 164 more", "<polyline"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page has no %q", field, want)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "<script", "http://", "https://", "ZgotmplZ"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the page has %q", field, bad)
			}
		}
		wellFormed(t, text)
	}
}

// wellFormed fails if the page is no XML, which it is written as.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.Replace(text, "<!doctype html>", "", 1)))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	a := answer(replay.Timeout)
	for _, points := range [][]replay.Point{nil, a.Points[:1], {{Value: 1000}, {Value: 2000}}} {
		var b strings.Builder
		if err := page.WriteHTML(&b, &replay.Answer{Field: replay.Timeout, Points: points}); err != nil || strings.Contains(b.String(), "NaN") {
			t.Errorf("%d points: %v\n%s", len(points), err, b.String())
		}
	}
}

func TestMarksAndAxes(t *testing.T) {
	a := answer(replay.Timeout)
	last := &a.Points[len(a.Points)-1]
	last.Rate = 0
	a.Learned = &replay.Point{Value: last.Value, Rate: 1.7, Mean: last.Value}
	var b strings.Builder
	if err := page.WriteHTML(&b, a); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a label at the right edge stands left of its mark": `dx="-9" dy="-8" text-anchor="end">learned<`,
		"where 0 lies on the axis, the axis says 0":         `dominant-baseline="middle">0</text>`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: the page lacks %q", name, want)
		}
	}
	a.Learned = &a.Today
	b.Reset()
	if err := page.WriteHTML(&b, a); err != nil || !strings.Contains(b.String(), `dy="18">learned<`) {
		t.Errorf("labels of the same place overlap: %v", err)
	}
}
