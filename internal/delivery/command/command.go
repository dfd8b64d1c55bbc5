// Package command delivers messages to programs: each gets a message as its input and accepts it by
// its exit code 0.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/internal/command"
	"github.com/holter-iot/holter/internal/delivery/sink"
)

// settings are the settings of an endpoint of kind command.
type settings struct {
	sink.Settings

	// Args are the arguments of the program. No shell expands them.
	Args []string `json:"args,omitempty"`
	// Shell makes the target a command line for /bin/sh.
	Shell bool `json:"shell,omitempty"`
	// Dir is the working directory. Default: that of this process.
	Dir string `json:"dir,omitempty"`
}

// program is a sink that runs a program.
type program struct {
	sink.Settings

	argv []string
	dir  string
}

// Kind returns the kind of sinks that run programs, as the user that this process runs as. Unless it
// is allowed, there can be no such sink.
func Kind(allowed bool) sink.Kind {
	return func(target string, text json.RawMessage) (sink.Sink, error) {
		if !allowed {
			return nil, errors.New("kind: this process is not configured to run commands")
		}
		var s settings
		if err := sink.Decode(text, &s); err != nil {
			return nil, err
		}
		if s.Batch > 1 {
			return nil, errors.New("settings: a command gets one message at a time, so batch must be 1")
		}
		argv, err := command.Argv(target, s.Args, s.Shell)
		if err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		return &program{Settings: s.Settings, argv: argv, dir: s.Dir}, nil
	}
}

// Deliver implements [sink.Sink]. It runs the program for one message after the other, until one
// fails.
func (p *program) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	results := sink.Repeat(len(messages), sink.Result{Err: errors.New("one before it failed")})
	for i := range messages {
		if results[i] = p.run(ctx, &messages[i]); results[i].Err != nil {
			break
		}
	}
	return results
}

// Close implements [sink.Sink]. It does nothing.
func (p *program) Close() error { return nil }

func (p *program) run(ctx context.Context, m *sink.Message) sink.Result {
	env := []string{command.Variable("HOLTER_MESSAGE_ID", m.ID), command.Variable("HOLTER_KEY", m.Key)}
	if m.Event != nil {
		env = append(env, command.Variable("HOLTER_EVENT_TYPE", m.Event.Type.String()))
	}
	r, err := command.Run(ctx, command.Command{Argv: p.argv, Dir: p.dir, Env: env, Input: m.Data, Keep: sink.MaxResponse})
	return sink.Result{Err: err, Status: r.Code, Response: r.Output}
}
