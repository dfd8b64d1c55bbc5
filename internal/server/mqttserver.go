package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// buildMQTT creates the bridges and the report that the configuration asks for.
func (s *server) buildMQTT(bridges []mqttbridge.Config) error {
	for _, cfg := range bridges {
		cfg.Session = s.session("bridge/"+cfg.Name, cfg.ClientID)
		if s.config.Report.To != "" {
			cfg.Identify = func(device string, id convention.Identity) { s.reporter.Identify(device, id) } // which is created below
		}
		b, err := mqttbridge.New(s.registry, cfg)
		if err != nil {
			return fmt.Errorf("bridge %s: %w", cfg.Name, err)
		}
		s.bridges = append(s.bridges, b)
		s.edges = append(s.edges, b.Run)
	}
	if len(s.bridges) > 0 {
		s.edges = append(s.edges, s.found)
	}
	return s.buildReport(bridges)
}

// session returns what decides about each connection to a broker of a server that shares its database,
// by the purpose of the connection, see mqttbridge.Config; nil if nothing is to decide, since the
// database is a file: two processes never have that at a time.
//
// The client identifier is one for all servers of a fleet: when the next judge connects, the broker ends
// the connection of a judge that was stopped or cut off, and publishes its will before anything of the
// next one. Such a judge must not connect again once it runs on.
func (s *server) session(purpose, clientID string) func(ctx context.Context) (string, error) {
	if _, file := SQLitePath(DatabaseConfig(s.config).URL); file {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		if s.database.Lapsed() > 0 {
			if err := s.roster.Ask(ctx, s.peers, s.database.Fence()); err != nil {
				return "", fmt.Errorf("the lease of the database could not be renewed: %w", err)
			}
		}
		return cmp.Or(clientID, fleetClient(s.database.ID(), purpose)), nil
	}
}

// fleetClient returns the client identifier for a purpose in a fleet.
func fleetClient(fleet, purpose string) string {
	sum := sha256.Sum256([]byte(fleet + "\x00" + purpose))
	return "holter-" + hex.EncodeToString(sum[:8]) // 23 bytes, which MQTT 3.1.1 promises (section 3.1.3.1)
}

// foundAfter is the delay before the devices found on brokers are logged.
const foundAfter = 5 * time.Second

// found logs how many devices the bridges found in their first seconds.
func (s *server) found(ctx context.Context) error {
	select {
	case <-time.After(foundAfter):
	case <-ctx.Done():
		return nil
	}
	for _, b := range s.bridges {
		v := b.View()
		if !v.Connected {
			s.log.Warn("the broker is not reached yet; it is tried again and again", "bridge", v.Name, "url", v.URL, "error", v.LastError)
			continue
		}
		s.log.Info("the broker is being watched", "bridge", v.Name, "url", v.URL, "subscriptions", strings.Join(v.Subscriptions, " "),
			"watermark", v.Watermark, "messages", v.Messages)
	}
	states := statesText(s.registry.Stats())
	s.log.Info("devices after the first seconds", "found", states, "known_before", s.known)
	if terminal.IsTerminal(s.stdout) {
		_, _ = fmt.Fprintf(s.stdout, "  found %s\n\n", states)
	}
	return nil
}

// statesText counts the devices, in all and by state.
func statesText(st liveness.Stats) string {
	states := make(map[string]int, len(st.States))
	for state, n := range st.States {
		states[state.String()] += n
	}
	text := terminal.Plural(st.Devices, "device", "devices")
	if st.Devices > 0 {
		text += ": " + terminal.CountStates(states)
	}
	return text
}
