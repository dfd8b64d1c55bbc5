package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Set sets a field from a word KEY=VALUE, for which the keys are devices, for,
// seed, database, faults, disk, ttl and epsilon.
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
	case "ttl":
		c.Rules.TTLs, err = ParseTTLs(value)
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
	for _, name := range words(text) {
		kinds = append(kinds, FaultKind(name))
	}
	return kinds
}

// ParseTTLs reads durations with commas between.
func ParseTTLs(text string) ([]time.Duration, error) {
	var ttls []time.Duration
	for _, word := range words(text) {
		ttl, err := time.ParseDuration(word)
		if err != nil {
			return nil, err
		}
		ttls = append(ttls, ttl)
	}
	return ttls, nil
}

// words returns what stands between commas.
func words(text string) []string {
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}
