package config

// ParseText resolves the text of a file that need not exist.
func ParseText(name, text string) (Config, error) {
	r := resolver{}
	r.cfg.HTTPRate = DefaultHTTPRate
	r.load(name, text)
	return r.finish()
}

// Plain returns a configuration without the places where it was written, to be compared.
func Plain(c Config) Config {
	for i := range c.Listen {
		c.Listen[i].at = spot{}
		if c.Listen[i].DTU != nil {
			c.Listen[i].DTU.at = spots{}
		}
	}
	for i := range c.Bridges {
		b := &c.Bridges[i]
		b.at = spot{}
		for j := range b.Presets {
			b.Presets[j].at = spot{}
		}
		for j := range b.Rules {
			b.Rules[j].at, b.Rules[j].cases = spots{}, nil
		}
	}
	for i := range c.Playbooks {
		p := &c.Playbooks[i]
		p.at, p.stepsAt, p.recoveredAt = spots{}, nil, nil
	}
	return c
}
