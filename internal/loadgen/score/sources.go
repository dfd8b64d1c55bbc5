package score

import (
	"context"
	"errors"
	"time"
)

// behindEvery is how often it is asked how far listening clocks are behind.
const behindEvery = time.Second

// sources is what the API says of sources.
type sources struct {
	Sources []struct {
		Name      string
		Behind    float64   `json:"behind_ms"`
		DeafSince time.Time `json:"deaf_since"`
	}
	AsOf time.Time `json:"as_of"`
}

// deafBefore tells which sources were deaf already when the stream began, unless it began with the
// oldest event. A gateway that has no list of sources, or does not show it, tells nothing.
func (s *stream) deafBefore(ctx context.Context) error {
	if s.asked || s.config.Oldest {
		return nil
	}
	var answer sources
	if err := s.ask(ctx, askTimeout, "/v1/sources", &answer); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	s.asked = true
	for _, source := range answer.Sources {
		if !source.DeafSince.IsZero() {
			v := Verdict{URL: s.config.URL, Kind: SourceDeaf, Source: source.Name, Time: source.DeafSince, Seen: time.Now()}
			s.clock.correct(&v)
			s.tell(v)
		}
	}
	return nil
}

// watchClocks tells how far listening clocks are behind, again and again until ctx is done. What a
// gateway does not show excuses nothing.
func (s *stream) watchClocks(ctx context.Context) error {
	tick := time.NewTicker(behindEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var answer sources
		asked := time.Now()
		if err := s.ask(ctx, askTimeout, "/v1/sources", &answer); err != nil {
			continue
		}
		for _, source := range answer.Sources {
			v := Verdict{URL: s.config.URL, Kind: Behind, Source: source.Name, Time: answer.AsOf, Lag: millis(source.Behind), Seen: time.Now()}
			if s.clock.correct(&v); v.Time.Before(asked) {
				v.Time = asked
			}
			s.tell(v)
		}
	}
}
