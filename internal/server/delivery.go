package server

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	commandsink "github.com/holter-iot/holter/internal/delivery/command"
	"github.com/holter-iot/holter/internal/delivery/jetstream"
	"github.com/holter-iot/holter/internal/delivery/kafka"
	"github.com/holter-iot/holter/internal/delivery/logfile"
	"github.com/holter-iot/holter/internal/delivery/mqttsink"
	"github.com/holter-iot/holter/internal/delivery/notify"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/version"
)

// These variables allow destinations. The operator of the process sets them, so that a token for the
// API is not enough.
const (
	PrivateEnv  = sink.PrivateEnv  // networks, separated by commas
	CommandsEnv = sink.CommandsEnv // true or false
)

// deliveryConfig returns the configuration of delivery. Its errors are mistakes of the user.
func (s *server) deliveryConfig() (delivery.Config, error) {
	cfg := delivery.Config{Agent: "holter/" + version.String(), Node: s.config.Node, Logger: s.log, Keep: keptJobs(&s.config), KeepAge: s.config.Jobs.MaxAge}
	var err error
	if cfg.Private, err = networks(os.Getenv(PrivateEnv)); err != nil {
		return cfg, fmt.Errorf("%s: %w", PrivateEnv, err)
	}
	commands, err := commandsAllowed()
	if err != nil {
		return cfg, err
	}
	guard := sink.NewGuard(cfg.Private)
	cfg.Kinds = map[string]sink.Kind{
		"mqtt": mqttsink.Kind(guard), "nats": jetstream.Kind(guard), "kafka": kafka.Kind(guard),
		"log": logfile.Kind(filepath.Join(s.config.Data, "logs")), "command": commandsink.Kind(commands),
	}
	maps.Copy(cfg.Kinds, notify.Kinds(guard, cfg.Agent))
	return cfg, nil
}

// commandsAllowed reports whether endpoints, schedules and playbooks of the API may run programs.
func commandsAllowed() (bool, error) {
	text := os.Getenv(CommandsEnv)
	if text == "" {
		return false, nil
	}
	allowed, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s: %q is neither true nor false", CommandsEnv, text)
	}
	return allowed, nil
}

// networks parses networks and addresses separated by commas.
func networks(text string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if ip, err := netip.ParseAddr(part); err == nil {
			list = append(list, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is no network; write 10.0.0.0/8 or 127.0.0.1, and commas between them", part)
		}
		list = append(list, p)
	}
	return list, nil
}

// buildDelivery creates the engines of delivery and playbooks.
func (s *server) buildDelivery() error {
	cfg, err := s.deliveryConfig()
	if err != nil {
		return BadConfig(err)
	}
	commands, err := commandsAllowed()
	if err != nil {
		return BadConfig(err)
	}
	s.books, err = playbook.New(playbook.Config{
		Database: s.database, Store: s.store, Fleet: s.registry, Playbooks: s.config.Playbooks, Commands: commands, Logger: s.log,
	})
	if err != nil {
		return err
	}
	cfg.Kinds[playbook.EndpointKind] = s.books.Kind
	if s.delivery, err = delivery.New(s.store, s.jobs, cfg); err != nil {
		return err
	}
	s.books.Attach(s.delivery)
	s.edges = append(s.edges, s.delivery.Run, s.books.Run)
	return nil
}

// buildSchedules creates the engine of schedules.
func (s *server) buildSchedules() error {
	commands, err := commandsAllowed()
	if err != nil {
		return BadConfig(err)
	}
	if s.cron, err = cron.New(s.database, s.delivery, s.registry, cron.Config{Node: s.config.Node, Logger: s.log, Commands: commands}); err != nil {
		return err
	}
	s.edges = append(s.edges, s.cron.Run)
	return nil
}

// loadDelivery installs playbooks, and restores open maintenance windows.
func (s *server) loadDelivery(ctx context.Context) error {
	if err := s.books.Load(ctx); err != nil {
		return err
	}
	return s.cron.Restore(ctx, s.listened)
}
