package server

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// Presets that are shown can be put into a file, and mean the same there.
func TestShownPresets(t *testing.T) {
	for _, name := range presets.Names() {
		spec, ok := presets.Spec(name)
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text := "bridges:\n- url: a\n" + "  " + strings.ReplaceAll(spec.YAML(), "\n", "\n  ")
			cfg, err := config.ResolveMonitor(tempFile(t, text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conventionsOf(&cfg.Bridges[0]); err != nil {
				t.Error(err)
			}
			again := convention.Spec{Name: rulesName, Rules: cfg.Bridges[0].Rules}
			if spec.About = ""; again.YAML() != spec.YAML() {
				t.Errorf("it became\n%swant\n%s", again.YAML(), spec.YAML())
			}
		})
	}
}
