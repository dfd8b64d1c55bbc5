package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
)

func TestAvailabilityText(t *testing.T) {
	share, mean := 0.999_999, 3_600_000.0
	to := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	d := httpapi.DeviceAvailability{Device: "pump\x1b", From: to.Add(-24 * time.Hour), To: to}
	d.Availability = httpapi.Availability{Share: &share, Online: 86_000_000, Offline: 100_000, Deaf: 300_000, Outages: 1, MTBF: &mean, MTTR: &mean, Longest: 100_000}
	got := availabilityText(&d)
	for _, want := range []string{`pump\x1b`, "99.999 % of 23h55m of heard time", "deaf            5m          its source was deaf", "1, the longest 1m40s", "1h  mean time to recover"} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	d.Availability = httpapi.Availability{}
	if got := availabilityText(&d); !strings.Contains(got, "not known: no heartbeat") || !strings.Contains(got, "outages         none") {
		t.Errorf("of a device that was never heard:\n%s", got)
	}
}

func TestAvailabilityCheck(t *testing.T) {
	tests := []struct {
		name    string
		command availabilityCommand
		want    string // in the error
	}{
		{"a device", availabilityCommand{Device: "a"}, ""},
		{"a group", availabilityCommand{Group: "a", Worst: true, Last: "7d", limitFlag: limitFlag{10}}, ""},
		{"neither", availabilityCommand{}, "give the id of a device"},
		{"both", availabilityCommand{Device: "a", Group: "b"}, "give the id of a device"},
		{"two formats", availabilityCommand{Device: "a", CSV: true, jsonFlag: jsonFlag{true}}, "--csv or --json"},
		{"two windows", availabilityCommand{Device: "a", Last: "7d", To: "1d"}, "--last, or --from and --to"},
		{"the worst of one", availabilityCommand{Device: "a", Worst: true, limitFlag: limitFlag{1}}, "--worst is for --group"},
		{"all of the worst", availabilityCommand{Group: "a", Worst: true}, "--worst shows 1000"},
		{"negative", availabilityCommand{Group: "a", limitFlag: limitFlag{-1}}, "is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.command.check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("check() = %v, want %q", err, tt.want)
			}
		})
	}
}
