package liveness

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Config describes a fleet. The zero Config is a good one.
type Config struct {
	// Policy is the fleet's default.
	Policy Policy
	// MinTimeout is the least Timeout that holds for a device. A policy that is set may not have
	// less; what a protocol announces, or was set before, is raised to it. Default: 1 s.
	MinTimeout time.Duration
	// Groups are matched in order; a device belongs to the first whose pattern matches its id.
	Groups []GroupConfig
	// Devices are the policies of single devices, by id. They are known, as NeverSeen, from the
	// start.
	Devices map[string]Policy
	// Flapping defines when a device counts as flapping.
	Flapping FlappingConfig
	// MaxDevices is the most devices that the registry holds, up to [MaxDevices]. Default: 2,000,000.
	MaxDevices int
	// RetireAfter is for how long any source listens until a source that was restored and not added
	// is retired: its devices are judged by the clock of others. Default: 10 min.
	RetireAfter time.Duration
	// Outbox is how many events wait for the sink before verdicts wait, too. While as many wait and
	// the sink takes none for 5 s, the sources' clocks stand still. At twice as many, what would
	// cause an event is refused with [ErrBusy]; a heartbeat of a device that is not online counts,
	// but brings it online only once there is room. Default: 65,536, some 30 MB.
	Outbox int
}

// retireAfter is the default of RetireAfter. A bridge that was renamed or taken out is gone for good, and its devices
// should not stay unknown for long; 10 minutes are enough to put back what was taken out by mistake.
const retireAfter = 10 * time.Minute

// withDefaults returns c with the defaults in its zero fields, but for those of policies and groups.
func (c Config) withDefaults() Config {
	c.MaxDevices = cmp.Or(c.MaxDevices, 2_000_000)
	c.Outbox = cmp.Or(c.Outbox, 65_536)
	c.MinTimeout = cmp.Or(c.MinTimeout, time.Second)
	c.RetireAfter = cmp.Or(c.RetireAfter, retireAfter)
	c.Flapping = c.Flapping.withDefaults()
	return c
}

func (c Config) validate() error {
	var errs []error
	reject := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("liveness: %s: %w", what, err))
		}
	}
	reject("Policy", errors.Join(c.Policy.ValidateFleet(), c.Policy.AtLeast(c.MinTimeout)))
	reject("Flapping", c.Flapping.validate())
	names := make(map[string]bool)
	for _, g := range c.Groups {
		reject("group "+g.Name, errors.Join(g.validate(), g.Policy.AtLeast(c.MinTimeout)))
		if names[g.Name] {
			reject("group "+g.Name, errors.New("the name is taken"))
		}
		names[g.Name] = true
	}
	for id, p := range c.Devices {
		reject("device "+id, errors.Join(ValidateID(id), p.Validate(), p.AtLeast(c.MinTimeout)))
	}
	if c.MinTimeout < 0 || c.MinTimeout > judgement.DefaultTimeout {
		errs = append(errs, fmt.Errorf("liveness: MinTimeout is %v, want 0 to %v", c.MinTimeout, judgement.DefaultTimeout))
	}
	if c.MaxDevices > MaxDevices {
		errs = append(errs, fmt.Errorf("liveness: MaxDevices is %d, want up to %d", c.MaxDevices, MaxDevices))
	}
	if c.MaxDevices < 0 || c.Outbox < 0 || c.RetireAfter < 0 {
		errs = append(errs, errors.New("liveness: MaxDevices, Outbox and RetireAfter must not be negative"))
	}
	return errors.Join(errs...)
}
