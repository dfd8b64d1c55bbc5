package server

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/operate"
)

func TestForgettings(t *testing.T) {
	rule := func(after time.Duration, message string) operate.Forgetting {
		return operate.Forgetting{After: after, Message: message}
	}
	never := operate.Forgetting{}
	all, unverified := rule(time.Hour, "it was silent for 1h"), rule(time.Minute, "it was never verified, and silent for 1m")
	for _, tt := range []struct {
		name                       string
		after, sooner              time.Duration
		wantVerified, wantStranger operate.Forgetting
	}{
		{"never", 0, 0, never, never},
		{"all", time.Hour, 0, all, all},
		{"unverified ones", 0, time.Minute, never, unverified},
		{"unverified ones sooner", time.Hour, time.Minute, all, unverified},
		{"unverified ones not later", time.Hour, 2 * time.Hour, all, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{front: front{live: liveOf(config.Config{ForgetAfter: tt.after, ForgetUnverified: tt.sooner})}}
			if v, u := s.forgettings(); v != tt.wantVerified || u != tt.wantStranger {
				t.Errorf("forgettings = %+v, %+v, want %+v, %+v", v, u, tt.wantVerified, tt.wantStranger)
			}
		})
	}
}
