package liveness

import (
	"errors"
	"fmt"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// MaxDevices is the most that Config.MaxDevices may be. Then the number of each device is one that can be restored,
// and the timers of all of them fit into one source on a single processor, both with a fourth to spare.
const MaxDevices = 50_000_000

func validateRecord(rec *keep.Record, c *judgement.Calendars) error {
	err := errors.Join(ValidateID(rec.ID), rec.Announced.ValidateWith(c), rec.Own.ValidateWith(c))
	switch {
	case err != nil:
	case rec.State >= Unknown || int(rec.Reason) >= judgement.Reasons:
		err = fmt.Errorf("state %d, reason %d", rec.State, rec.Reason)
	case rec.Last < 0 || rec.Last > keep.MaxListened || rec.Heard < 0 || rec.Heard > keep.MaxListened || rec.Until < 0 || rec.Until > keep.MaxListened+judgement.MaxSpan:
		err = fmt.Errorf("listening times %v, %v", rec.Last, rec.Until)
	case len(rec.Changes) > maxThreshold:
		err = fmt.Errorf("%d changes", len(rec.Changes))
	case rec.JudgedBy < 0 || rec.JudgedBy > judgement.MaxSpan:
		err = fmt.Errorf("judged by a span of %v", rec.JudgedBy)
	case rec.Learned < 0 || rec.Learned > judgement.MaxSpan:
		err = fmt.Errorf("a learned deadline of %v", rec.Learned)
	case rec.Num == 0 || rec.Num > keep.MaxNum:
		err = fmt.Errorf("number %d", rec.Num)
	}
	if err != nil {
		return fmt.Errorf("liveness: restore device %q: %w", rec.ID, err)
	}
	return nil
}
