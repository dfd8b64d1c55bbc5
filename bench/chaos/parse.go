package main

import (
	"strings"
	"time"
)

// ParseFaults reads kinds of faults with commas between. [Run] checks that they exist.
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
