package broker_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// A client with the password of a user is a verified device, one that anybody could be is not.
func TestUnverified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	usersFile(t, path, "ann", "secret-1")
	users, err := broker.NewUsers(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		auth broker.Auth
		user string
		want bool
	}{
		{"nobody", broker.Anonymous(true), "", true},
		{"a name that nobody checks", broker.Anonymous(false), "ann", true},
		{"users", users, "ann", false},
		{"either, with a name", broker.Either(users, broker.Anonymous(true)), "ann", false},
		{"either, without", broker.Either(users, broker.Anonymous(true)), "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, liveness.Config{}, broker.Config{Auth: tt.auth})
			h := hello{id: "a", user: tt.user}
			if tt.user != "" {
				h.password = "secret-1"
			}
			s.connect(h)
			if v, err := s.registry.Device("a"); err != nil || v.Unverified != tt.want {
				t.Errorf("unverified: %v, %v, want %v", v.Unverified, err, tt.want)
			}
		})
	}
}
