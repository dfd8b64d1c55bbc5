package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// notBefore returns the listening time before which a device is not judged because the source was
// deaf, 0 if there is none. All that the device said up to whole is known, and its silence counts from
// from. See judgement.Deafness for ended.
func (s *Source) notBefore(whole, from, ended time.Duration, p Policy, by *judgement.Pace) time.Duration {
	skipped := time.Duration(0)
	if whole < time.Duration(s.outlived.Load()) {
		skipped = time.Duration(s.skipped.Load())
	}
	return s.deafness.Bounded(whole, from, ended, p.Timeout, s.config.Load().grace(p), skipped, by)
}

// unheard reports whether the source is deaf, or has lost its connections since all was known of a
// device.
func (s *Source) unheard(whole time.Duration) bool {
	p := s.latest.Load()
	return p != nil && p.deaf || whole < s.deafness.Cut()
}

// wholeLocked returns the listening time up to which all is known that a device said which was heard
// last at an instant: then, or when this process went on if the device's connection has outlived the
// one before.
func (d *device) wholeLocked(last time.Duration) time.Duration {
	switch {
	case d.marks&outlived != 0:
		return max(last, time.Duration(d.source.outlived.Load()))
	case d.marks&toldSince != 0:
		return 0
	}
	return last
}

// grace returns the reconnect grace of a device with a policy.
func (c *SourceConfig) grace(p Policy) time.Duration {
	return p.Grace(c.ReconnectGrace, c.ReconnectGraceMax)
}
