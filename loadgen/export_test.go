package loadgen

import (
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
)

// Player plays the devices of a worker.
type Player = player

// With makes the workers of a run, which have to be in this process, play devices otherwise.
func With(cfg Config, players func(drive.Config) (Player, error)) Config {
	cfg.players = players
	return cfg
}

// Parts is [Config] as Run splits it where a process may open so many files.
func Parts(cfg Config, files int) (n int, processes bool) { return cfg.parts(files) }

// Diagnose names the limits that errors by cause, and counters of the kernel, show.
func Diagnose(causes, kernel map[string]uint64) (limits, sentences []string) {
	for _, h := range diagnose(evidence{errors: causes, kernel: kernel, way: way{1, 1, 28232}, files: 20_000, protocol: "line", moment: time.Second}) {
		limits, sentences = append(limits, h.Limit), append(sentences, sentence(h))
	}
	return limits, sentences
}

// Counters reads the kernel's counters below a directory.
func Counters(root string) map[string]uint64 { return kernel{root}.counters() }
