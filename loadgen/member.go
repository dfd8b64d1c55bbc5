package loadgen

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// member is a worker, seen from the process that started it. The fleet's goroutine owns all fields.
type member struct {
	plan.Range

	index   int
	process int // 0 if it lives in this one
	orders  io.WriteCloser
	encoder *gob.Encoder
	end     func() // at once

	stats drive.Stats // the latest, without histograms
	said  said        // the answers in an earlier one
	done  bool        // it has announced its end
	fault string      // why it ended, if it said so
	gone  bool        // it has ended
	died  bool        // too early
}

// workerMessage is what a worker sends, or its end.
type workerMessage struct {
	member *member
	update *update
	err    error // with no update: how the member ended
}

// startProcess starts a worker as a process; kill ends ctx, and it.
func startProcess(ctx context.Context, kill func(), command []string, inbox chan<- workerMessage, wg *sync.WaitGroup) (*member, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // a worker is one loop; more threads only get into each other's way
	// A Ctrl-C on the terminal is for the process that was started there.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	said := &head{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &member{orders: in, encoder: gob.NewEncoder(in), end: kill, process: cmd.Process.Pid}
	wg.Go(func() {
		defer kill()
		err := m.listen(out, inbox)
		if ended := cmd.Wait(); ended != nil {
			err = ended
		}
		if err != nil && said.String() != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		inbox <- workerMessage{member: m, err: err}
	})
	return m, nil
}

// startHere starts a worker in this process; kill ends ctx, and it.
func startHere(ctx context.Context, kill func(), players func(drive.Config) (player, error), inbox chan<- workerMessage, wg *sync.WaitGroup) *member {
	ordersOut, ordersIn := io.Pipe()
	newsOut, newsIn := io.Pipe()
	m := &member{orders: ordersIn, encoder: gob.NewEncoder(ordersIn), end: kill}
	ended := make(chan error, 1) // one send
	wg.Go(func() {
		err := work(ctx, ordersOut, newsIn, players)
		ended <- err
		_ = newsIn.Close()
		_ = ordersOut.Close()
	})
	wg.Go(func() {
		defer kill()
		err := m.listen(newsOut, inbox)
		_ = newsOut.Close()
		_ = ordersIn.Close()
		err = errors.Join(err, <-ended)
		inbox <- workerMessage{member: m, err: err}
	})
	return m
}

// listen passes on the member's messages until it ends. An end that was announced is no error.
func (m *member) listen(from io.Reader, inbox chan<- workerMessage) error {
	decoder := gob.NewDecoder(from)
	announced := false
	for {
		n := new(update)
		err := decoder.Decode(n)
		switch {
		case errors.Is(err, io.EOF) && announced:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("it ended without a word")
		case err != nil:
			return fmt.Errorf("what it tells cannot be read: %w", err)
		}
		announced = n.Done
		inbox <- workerMessage{member: m, update: n}
	}
}

// head keeps the beginning of a process's error output.
type head struct {
	mu   sync.Mutex // guards text
	text []byte
}

const headSize = 2 << 10

// Write implements [io.Writer].
func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, b[:min(len(b), headSize-len(h.text))]...)
	return len(b), nil
}

// String returns the first lines, as one.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := strings.FieldsFunc(string(h.text), func(r rune) bool { return r == '\n' })
	return strings.Join(lines[:min(len(lines), 3)], "; ")
}
