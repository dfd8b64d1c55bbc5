package chaos

import (
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	if c := defaults(); c.check() != nil {
		t.Error(c.check())
	}
	for name, change := range map[string]func(*Config){
		"database":      func(c *Config) { c.Database = "oracle" },
		"fault":         func(c *Config) { c.Faults = nil },
		"timeout":       func(c *Config) { c.Rules.TTLs = []time.Duration{time.Millisecond} },
		"no timeout":    func(c *Config) { c.Rules.TTLs = nil },
		"devices":       func(c *Config) { c.Devices = 2 },
		"negative time": func(c *Config) { c.For = -1 },
		"one version":   func(c *Config) { c.Previous = "old" },
	} {
		c := defaults()
		change(&c)
		if report, err := Run(t.Context(), c); err == nil {
			t.Errorf("%s: Run gave %+v", name, report)
		}
	}
}
