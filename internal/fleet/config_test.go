package fleet

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestConfigDefaults(t *testing.T) {
	c, target, err := Config{Addr: "127.0.0.1:7000", Devices: 8001}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if target != netip.MustParseAddrPort("127.0.0.1:7000") || c.Prefix != "dev-%06d" || c.TTL != time.Minute ||
		c.Interval != 20*time.Second || c.Rate != 10_000 {
		t.Errorf("defaults = %+v to %v", c, target)
	}
	if len(c.SourceIPs) != 2 || c.SourceIPs[0] != netip.MustParseAddr("127.0.0.2") || c.SourceIPs[1] != netip.MustParseAddr("127.0.0.3") {
		t.Errorf("SourceIPs = %v, want 127.0.0.2 and 127.0.0.3", c.SourceIPs)
	}
	if c, _, err = (Config{Addr: "192.0.2.1:7000", Devices: 9000}).withDefaults(); err != nil || c.SourceIPs != nil {
		t.Errorf("SourceIPs of a far gateway = %v, %v, want none", c.SourceIPs, err)
	}
}

func TestConfigErrors(t *testing.T) {
	good := Config{Addr: "127.0.0.1:7000", Devices: 1}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no address":      {func(c *Config) { c.Addr = "" }, "Addr"},
		"name":            {func(c *Config) { c.Addr = "localhost:7000" }, "Addr"},
		"IPv6":            {func(c *Config) { c.Addr = "[::1]:7000" }, "Addr"},
		"unspecified":     {func(c *Config) { c.Addr = "0.0.0.0:7000" }, "Addr"},
		"no devices":      {func(c *Config) { c.Devices = 0 }, "Devices"},
		"constant prefix": {func(c *Config) { c.Prefix = "dev" }, "Prefix"},
		"string prefix":   {func(c *Config) { c.Prefix = "%s" }, "Prefix"},
		"space":           {func(c *Config) { c.Prefix = "dev %d" }, "white space"},
		"token":           {func(c *Config) { c.Token = "a\n" }, "white space"},
		"interval":        {func(c *Config) { c.Interval, c.TTL = time.Second, time.Second }, "Interval"},
		"retry":           {func(c *Config) { c.RetryMin = time.Second }, "RetryMax"},
		"retry at once":   {func(c *Config) { c.RetryMax = time.Second }, "RetryMin"},
		"rate":            {func(c *Config) { c.Rate = -1 }, "Rate"},
		"source":          {func(c *Config) { c.SourceIPs = []netip.Addr{netip.MustParseAddr("::1")} }, "SourceIPs"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			if _, _, err := cfg.withDefaults(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("withDefaults() = %v, want an error with %q", err, c.want)
			}
		})
	}
	_, _, err := Config{}.withDefaults()
	for _, want := range []string{"Addr", "Devices"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("withDefaults() of nothing = %v, want it to name %s too", err, want)
		}
	}
}
