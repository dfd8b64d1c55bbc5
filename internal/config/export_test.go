package config

// ParseText resolves the text of a file that need not exist.
func ParseText(name, text string) (Config, error) {
	r := resolver{}
	r.cfg.HTTPRate, r.cfg.ForgetUnverified = DefaultHTTPRate, DefaultForgetUnverified
	r.load(name, text)
	return r.finish()
}

// Plain returns a configuration without the places where it was written, to be compared.
func Plain(c Config) Config {
	c.file, c.inForce, c.again, c.mqttListen = nil, nil, nil, ""
	for i := range c.Listen {
		c.Listen[i].at = spot{}
	}
	for i := range c.Bridges {
		c.Bridges[i].at = spot{}
	}
	for i := range c.Playbooks {
		c.Playbooks[i].Place = ""
	}
	return c
}

// Table returns the settings of a configuration.
func Table(c *Config) []setting { return settings(c) }
