package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/internal/command"
)

// commandSettings are the settings of an endpoint of kind command.
type commandSettings struct {
	Common

	// Args are the arguments of the program. No shell looks at them.
	Args []string `json:"args,omitempty"`
	// Shell makes the target a line for /bin/sh.
	Shell bool `json:"shell,omitempty"`
	// Dir is the directory to run in. Default: that of this process.
	Dir string `json:"dir,omitempty"`
}

// program is a sink that runs a program, which gets the message as its input and says by its exit code whether it took it.
type program struct {
	argv []string
	dir  string
}

// commandKind makes a program of an endpoint's settings.
func commandKind(target string, settings json.RawMessage) (Sink, error) {
	var s commandSettings
	if err := DecodeSettings(settings, &s); err != nil {
		return nil, err
	}
	if s.Batch > 1 {
		return nil, errors.New("settings: a command gets one message at a time, so batch must be 1")
	}
	argv, err := command.Argv(target, s.Args, s.Shell)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	return &program{argv: argv, dir: s.Dir}, nil
}

// Deliver runs the program for one message after the other, until one fails.
func (p *program) Deliver(ctx context.Context, messages []Message) []Result {
	results := make([]Result, len(messages))
	for i := range messages {
		if results[i] = p.run(ctx, &messages[i]); results[i].Err != nil {
			for k := i + 1; k < len(messages); k++ {
				results[k] = Result{Err: errors.New("one before it failed")}
			}
			break
		}
	}
	return results
}

// Close does nothing.
func (p *program) Close() error { return nil }

func (p *program) run(ctx context.Context, m *Message) Result {
	env := []string{command.Variable("HOLTER_MESSAGE_ID", m.ID), command.Variable("HOLTER_KEY", m.Key)}
	if m.Event != nil {
		env = append(env, command.Variable("HOLTER_EVENT_TYPE", m.Event.Type.String()))
	}
	r, err := command.Run(ctx, command.Command{Argv: p.argv, Dir: p.dir, Env: env, Input: m.Data, Keep: keptResponse})
	return Result{Err: err, Status: r.Code, Response: r.Output}
}
