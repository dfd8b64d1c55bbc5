package server

import (
	"context"
	"errors"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/config"
)

// applyTime bounds how long a reload waits for the database.
const applyTime = 30 * time.Second

// look reads the files now that are watched anyway: certificates, devices, users and rules. Its error joins what
// is wrong with them; then what they said before stays in effect.
func (f *front) look() error {
	var errs []error
	for _, r := range f.reloaders {
		errs = append(errs, r.Look())
	}
	if f.devices != nil {
		errs = append(errs, f.devices.Look(time.Now()))
	}
	if f.mqtt != nil && f.who != nil {
		errs = append(errs, f.who.Look())
	}
	return errors.Join(errs...)
}

// apply puts in force what a server and an ear have in common.
func (f *front) apply(p *plan, l *logs) {
	p.do(func(c *config.Config) error {
		l.set(c.Log)
		return nil
	}, "log")
	p.do(func(c *config.Config) error {
		if f.shared != nil {
			f.shared.Set(c.Token.Reveal())
		}
		return nil
	}, "token")
	p.do(func(c *config.Config) error {
		if f.gateway == nil {
			return nil
		}
		cfg := c.Gateway
		for _, l := range c.Listen {
			cfg.Listen = append(cfg.Listen, gateway.Listener{Address: l.Address, MaxDevices: l.MaxDevices})
		}
		return f.gateway.SetLimits(cfg)
	}, "gateway", "listen")
}

// fleetKeys are the settings of the registry.
func fleetKeys() []string {
	return []string{"policy", "groups", "devices", "flapping", "min_timeout", "max_devices"}
}

// apply puts the settings of a plan in force. What fails stays as it was, and is in the plan.
func (s *server) apply(ctx context.Context, p *plan) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
	defer cancel()
	p.do(func(c *config.Config) error {
		done, err := s.registry.Reconfigure(c.Fleet)
		p.out.Devices, p.out.Moved = done.Changed, done.Moved
		if done.Left > 0 {
			s.log.Warn("there was no room for some configured devices; each is known once there is and it is heard", "devices", done.Left)
		}
		return err
	}, fleetKeys()...)
	p.do(func(c *config.Config) error { return s.books.Replace(ctx, c.Playbooks) }, "playbooks")
	p.do(func(c *config.Config) error { return s.api.SetLimits(float64(c.HTTPRate), c.Origins) }, "http_rate", "http_allow_origins")
	p.do(func(c *config.Config) error { return s.store.SetRetention(c.Store) }, "events", "gaps")
	p.do(func(c *config.Config) error { return s.delivery.SetKept(keptJobs(c), c.Jobs.MaxAge) }, "jobs")
	s.front.apply(p, s.logs)
}

// keptJobs returns how many jobs that ended are kept, as package delivery counts them.
func keptJobs(c *config.Config) int {
	if c.Jobs.Keep == 0 {
		return -1
	}
	return c.Jobs.Keep
}
