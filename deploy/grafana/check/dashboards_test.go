package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// TestSchema wants each dashboard to have no field that Grafana's schema has not, down to the options of
// each panel, and no value that it forbids. Units are of
// Grafana's list, of which it names those that are used.
func TestSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	known := []string{
		units.Short, units.Seconds, units.BytesIEC, units.PercentUnit, units.CountsPerMinute, units.CountsPerSecond, units.EventsPerSecond,
		units.MessagesPerSecond, units.BoolYesNo,
	}
	files, err := filepath.Glob("../dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			//nolint:staticcheck // our files have the schema of this type; its successor has another
			var d dashboard.Dashboard
			if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" { // an empty list of errors is no nil
				t.Fatal(err)
			}
			if err := d.Validate(); err != nil && err.Error() != "" {
				t.Error(err)
			}
			for _, p := range d.Panels {
				if p.Panel != nil && p.Panel.FieldConfig != nil {
					if unit := p.Panel.FieldConfig.Defaults.Unit; unit != nil && !slices.Contains(known, *unit) {
						t.Errorf("panel %q: unit %q is not known here", *p.Panel.Title, *unit)
					}
				}
			}
		})
	}
}
