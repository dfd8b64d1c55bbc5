package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// writeWithin is how long a write is waited for.
const writeWithin = time.Second

// writer makes writes of operators and devices, and checks later whether they are there. One
// goroutine calls its methods.
type writer struct {
	judge  func() *server // the one that writes go to
	api    func() *apiclient.Client
	now    func() time.Duration
	rounds int
	ready  []*preparedWrite
	made   []Written // answered, and not looked for yet
	done   []Written
}

// preparedWrite is a device that is ready for a write.
type preparedWrite struct {
	write

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
func (w *writer) introduce(ctx context.Context, p *preparedWrite) (err error) {
	if p.line == "" {
		return w.api().Ask(ctx, http.MethodPost, "/v1/beat/"+p.device+"?ttl=1h", nil, nil)
	}
	if p.conn, err = new(net.Dialer).DialContext(ctx, "tcp", w.judge().line); err != nil {
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

// do makes the write.
func (p *preparedWrite) do(ctx context.Context, client *apiclient.Client) error {
	if p.conn != nil {
		return p.say(ctx, p.line, p.answer)
	}
	return client.Ask(ctx, p.method, fmt.Sprintf(p.path, p.device), p.body, nil)
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
			asked := time.Now()
			if p.do(ctx, w.api()) == nil {
				mu.Lock()
				defer mu.Unlock()
				w.made = append(w.made, Written{Kind: p.kind, Device: p.device, Asked: asked, Answered: w.now()})
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

// look asks a ready server for the writes that were answered.
func (w *writer) look(ctx context.Context) error {
	for len(w.made) > 0 {
		made := w.made[0]
		found, page := &State{}, struct{ Events []cloudevent.Event }{}
		api := w.api()
		err := api.Get(ctx, "/v1/devices/"+made.Device, nil, found)
		if apiclient.StatusOf(err) == http.StatusNotFound {
			found, err = nil, nil
		} else if err == nil {
			err = api.Get(ctx, "/v1/devices/"+made.Device+"/events", nil, &page)
			found.Failed = slices.ContainsFunc(page.Events, func(e cloudevent.Event) bool { return e.Type == typeFailed })
		}
		if err != nil {
			return err
		}
		made.Found = found
		w.done, w.made = append(w.done, made), w.made[1:]
	}
	return nil
}
