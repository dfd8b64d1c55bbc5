package cron

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/command"
)

const (
	defaultTimeout = time.Minute
	maxTimeout     = 24 * time.Hour
	keptOutput     = 4096
)

// program runs a command.
type program struct {
	// Command is the path or name of a program, or a command line for the shell.
	Command string `json:"command"`
	// Args are its arguments, which no shell interprets.
	Args []string `json:"args,omitempty"`
	// Shell passes Command to /bin/sh.
	Shell bool `json:"shell,omitempty"`
	// Dir is the directory to run in. Default: that of this process.
	Dir string `json:"dir,omitempty"`
	// TimeoutMS is the time after which its process group is killed. Default: a minute.
	TimeoutMS float64 `json:"timeout_ms,omitempty"`
}

var errNoCommands = errors.New("settings: this server is not configured to run commands")

func (p *program) check(e *Engine) error {
	if !e.config.Commands {
		return bad("%w", errNoCommands)
	}
	if t := p.TimeoutMS; !(t == 0 || t >= 1 && t <= float64(maxTimeout.Milliseconds())) {
		return bad("settings: timeout_ms is %v, want 1 to %d", t, maxTimeout.Milliseconds())
	}
	if _, err := command.Argv(p.Command, p.Args, p.Shell); err != nil {
		return bad("settings: command: %w", err)
	}
	if err := command.CheckDir(p.Dir); err != nil {
		return bad("settings: %w", err)
	}
	return nil
}

func (p *program) timeout() time.Duration {
	if p.TimeoutMS == 0 {
		return defaultTimeout
	}
	return time.Duration(p.TimeoutMS * float64(time.Millisecond))
}

func (p *program) do(_, hard context.Context, e *Engine, run *claimedRun) outcome {
	if err := p.check(e); err != nil { // the server's configuration may have changed since it was set
		return failed("%w", err)
	}
	argv, err := command.Argv(p.Command, p.Args, p.Shell)
	if err != nil {
		return failed("%w", err)
	}
	ctx, cancel := context.WithTimeout(hard, p.timeout())
	defer cancel()
	r, err := command.Run(ctx, command.Command{Argv: argv, Dir: p.Dir, Keep: keptOutput, Env: []string{
		command.Variable("HOLTER_SCHEDULE", run.Name),
		command.Variable("HOLTER_RUN", strconv.FormatUint(run.ID, 10)),
		command.Variable("HOLTER_ATTEMPT", strconv.Itoa(run.Attempt)),
		command.Variable("HOLTER_SCHEDULED", run.Scheduled.UTC().Format(time.RFC3339Nano)),
	}})
	out := outcome{State: Done, Code: r.Code, Output: r.Output}
	switch {
	case hard.Err() != nil && err != nil:
		out.State, out.Error = Idle, "it was killed because the server was stopped"
	case ctx.Err() != nil && err != nil:
		out.State, out.Error = Failed, "it did not end within "+p.timeout().String()+" and was killed"
	case err != nil:
		out.State, out.Error = Failed, err.Error()
	}
	return out
}
