package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/chart"
)

func TestSVG(t *testing.T) {
	text := string(chart.Chart{
		Title: "A & B", Axis: "ns", Legends: []string{"armed", "renewed"},
		Rows: []chart.Row{
			{Name: "Holter", Color: "#0b6e8f", Series: [][]float64{{70, math.NaN(), 60}, {30}}},
			{Name: "another", Color: "#8a939b", Series: [][]float64{{math.NaN()}, {1200}}, Remark: ", fires early"},
		},
	}.SVG())
	for _, want := range []string{"A &amp; B<", ">armed<", ">10<", ">10,000<", ">65.0<", ">30.0<", ">1,200, fires early<"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "#0b6e8f") + strings.Count(text, `fill="#8a939b"`); n != 5 {
		t.Errorf("%d bars and legends, want 5", n)
	}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
