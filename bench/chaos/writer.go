//go:build linux

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/api"
)

// writeWithin is how long a write is waited for.
const writeWithin = time.Second

// writer makes writes of operators and devices, and checks later whether they are there. One
// goroutine calls its methods.
type writer struct {
	server *server
	line   string // address of the line protocol
	rounds int
	ready  []*preparedWrite
	made   []*Written // answered, and not looked for yet
	done   []Written
}

// preparedWrite is a device that is ready for a write.
type preparedWrite struct {
	write  write
	device string
	conn   net.Conn // nil if the write is by HTTP
}

// prepare introduces a device for each write. One that cannot be introduced is left out.
func (w *writer) prepare(ctx context.Context) {
	w.rounds++
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	for i, what := range writes() {
		p := &preparedWrite{write: what, device: fmt.Sprintf("%s%d-%d", writtenPrefix, w.rounds, i)}
		if w.introduce(ctx, p) == nil {
			w.ready = append(w.ready, p)
		} else {
			p.end()
		}
	}
}

func (p *preparedWrite) end() {
	if p.conn != nil {
		_ = p.conn.Close() // the other end is gone
	}
}

// introduce makes the device known to the server.
func (w *writer) introduce(ctx context.Context, p *preparedWrite) error {
	if p.write.line == "" {
		return w.request(ctx, http.MethodPost, "/v1/beat/"+p.device+"?ttl=1h", "")
	}
	var err error
	if p.conn, err = new(net.Dialer).DialContext(ctx, "tcp", w.line); err != nil {
		return err
	}
	return p.say(ctx, "HELLO "+p.device+" ttl=1h", "OK ")
}

// say sends a line, and expects one that begins with answer.
func (p *preparedWrite) say(ctx context.Context, line, answer string) error {
	if until, ok := ctx.Deadline(); ok {
		if err := p.conn.SetDeadline(until); err != nil {
			return err
		}
	}
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		return err
	}
	got, err := bufio.NewReader(p.conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(got, answer) {
		err = fmt.Errorf("%s is answered %q", line, got)
	}
	return err
}

// request expects a status of 2xx.
func (w *writer) request(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, w.server.api+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.server.client.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// write writes all that was prepared at once, and returns when all was answered or it took too
// long.
func (w *writer) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	var (
		mu    sync.Mutex // guards w.made
		group sync.WaitGroup
	)
	for _, p := range w.ready {
		group.Go(func() {
			asked, err := time.Now(), error(nil)
			if p.conn != nil {
				err = p.say(ctx, p.write.line, p.write.answer)
			} else {
				err = w.request(ctx, p.write.method, fmt.Sprintf(p.write.path, p.device), p.write.body)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				w.made = append(w.made, &Written{Kind: p.write.kind, Device: p.device, Asked: asked, Answered: w.server.now()})
			}
		})
	}
	group.Wait()
}

// end closes what was prepared, once the server is gone.
func (w *writer) end() {
	for _, p := range w.ready {
		p.end()
	}
	w.ready = nil
}

// lose notes that nothing is left of what was answered.
func (w *writer) lose() {
	for _, made := range w.made {
		w.done = append(w.done, *made)
	}
	w.made = nil
}

// look asks a ready server for the writes that were answered.
func (w *writer) look(ctx context.Context) error {
	for _, made := range w.made {
		found := &Found{}
		err := api.GetJSON(ctx, w.server.client, w.server.api+"/v1/devices/"+made.Device, found)
		var page struct {
			Events []struct{ Type string }
		}
		switch {
		case errors.Is(err, api.ErrNotFound):
			found, err = nil, nil
		case err == nil:
			err = api.GetJSON(ctx, w.server.client, w.server.api+"/v1/devices/"+made.Device+"/events", &page)
		}
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			found.Failed = found.Failed || strings.HasSuffix(e.Type, api.TypeFailed)
		}
		made.Found = found
		w.done = append(w.done, *made)
	}
	w.made = nil
	return nil
}
