package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Set sets a field from a word KEY=VALUE, for which the keys are devices, for,
// seed, database, faults, disk, timeout, allowance, checkpoint and epsilon.
func (c *Config) Set(word string) error {
	key, value, _ := strings.Cut(word, "=")
	var err error
	switch key {
	case "devices":
		c.Devices, err = strconv.Atoi(value)
	case "disk":
		c.DiskSize, err = strconv.Atoi(value)
	case "seed":
		c.Seed, err = strconv.ParseUint(value, 10, 64)
	case "database":
		c.Database = value
	case "faults":
		c.Faults = ParseFaults(value)
	case "for":
		c.For, err = time.ParseDuration(value)
	case "timeout":
		c.Rules.Timeout, err = time.ParseDuration(value)
	case "allowance":
		c.Rules.Allowance, err = time.ParseDuration(value)
	case "checkpoint":
		c.Rules.Checkpoint, err = time.ParseDuration(value)
	case "epsilon":
		c.Rules.Epsilon, err = time.ParseDuration(value)
	default:
		err = fmt.Errorf("there is no setting %q", key)
	}
	if err != nil {
		return fmt.Errorf("chaos: %s: %w", word, err)
	}
	return nil
}

// ParseFaults reads kinds of faults with commas between. Whether they exist Run
// finds out.
func ParseFaults(text string) []FaultKind {
	var kinds []FaultKind
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			kinds = append(kinds, FaultKind(name))
		}
	}
	return kinds
}
