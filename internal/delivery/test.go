package delivery

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// maxTest bounds a test: somebody waits for it.
const maxTest = 30 * time.Second

// Test sends one message to an endpoint now, through its sink, and returns what came of it. The message
// is the JSON object {"test":true,"text":"…","endpoint":"…","time":"…"}; kinds that notify people word it. No
// job is made: neither the queue, its rate and attempts, nor what failed before counts, and a disabled
// endpoint is tested, too. It takes as long as one delivery may, and 30 s at most. Errors: [jobs.ErrUnknown];
// [jobs.ErrBad] for an endpoint that cannot be used, and that of a playbook.
func (e *Engine) Test(ctx context.Context, name string) (sink.Result, error) {
	conf, err := e.Endpoint(name)
	if err != nil {
		return sink.Result{}, err
	}
	if conf.Kind == playbookKind {
		return sink.Result{}, bad("endpoint %.80q leads to a playbook; try that with \"holter playbooks dry-run\"", name)
	}
	e.mu.RLock()
	p := e.endpoints[conf.Num]
	if p == nil {
		e.mu.RUnlock()
		return sink.Result{}, errors.New("delivery: the engine has ended")
	}
	if p.err != nil {
		e.mu.RUnlock()
		return sink.Result{}, bad("endpoint %.80q cannot be used: %w", name, p.err)
	}
	p.users.Add(1) // before it is replaced
	e.mu.RUnlock()
	defer p.users.Done()
	ctx, cancel := context.WithTimeout(ctx, maxTest)
	defer cancel()
	now := time.Now().UTC()
	data, err := json.Marshal(map[string]any{"test": true, "text": "This is a test of the endpoint " + name + ".", "endpoint": name, "time": now})
	if err != nil {
		return sink.Result{}, err
	}
	m := sink.Message{ID: "test:" + rand.Text(), ContentType: "application/json", Data: data}
	return e.send(ctx, p, []sink.Message{m})[0], nil
}
