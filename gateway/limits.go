package gateway

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// limits are those of Config's bounds that may change while the gateway runs. They are replaced as a whole.
type limits struct {
	maxConnections   int
	maxPerAddress    int
	handshakeTimeout time.Duration
	keepAlive        time.Duration
}

func (c *Config) limits() *limits {
	return &limits{c.MaxConnections, c.MaxPerAddress, c.HandshakeTimeout, c.KeepAlive}
}

// SetLimits puts other bounds in force while the gateway runs: MaxConnections, MaxNewcomers, MaxPerAddress,
// AcceptRate, HandshakeTimeout and KeepAlive of a Config, and the MaxDevices of its listeners, which must be those that the gateway has; it reads nothing else. What is open
// stays open. A listener that counted no devices, and addresses whose connections were not counted, stay so.
// Errors: more MaxConnections than the event loops were made for; then nothing has changed.
func (g *Gateway) SetLimits(cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if most := max(g.config.MaxConnections, tableRoom()); cfg.MaxConnections > most {
		return fmt.Errorf("gateway: the event loops were made for %d connections", most)
	}
	if (cfg.MaxPerAddress == 0) != (g.config.MaxPerAddress == 0) {
		cfg.MaxPerAddress = g.config.MaxPerAddress
	}
	g.limits.Store(cfg.limits())
	g.newcomers.setLimit(cfg.MaxNewcomers)
	for _, l := range g.listeners {
		l.rate.SetLimit(rate.Limit(cfg.AcceptRate))
		l.rate.SetBurst(burstOf(cfg.AcceptRate))
	}
	for i, l := range g.bound {
		if l.quota != nil && i < len(cfg.Listen) && cfg.Listen[i].MaxDevices > 0 {
			l.quota.SetLimit(cfg.Listen[i].MaxDevices)
		}
	}
	return nil
}

// burstOf returns how many connections are accepted at once at a rate.
func burstOf(perSecond int) int { return max(perSecond/20, 1) }
