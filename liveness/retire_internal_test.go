package liveness

import (
	"testing"
	"time"
)

// A source that has been added before it could be retired keeps its configuration.
func TestRetireTooLate(t *testing.T) {
	r, err := New(noSink{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{registry: r}
	s.config.Store(&SourceConfig{MaxGap: time.Second})
	r.retire(s)
	if gap := s.config.Load().MaxGap; s.phase() != added || gap != time.Second {
		t.Errorf("the phase is %d, MaxGap %v, want %d and 1s", s.phase(), gap, added)
	}
}
