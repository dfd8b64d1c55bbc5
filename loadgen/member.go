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

	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
)

// member is a worker as the one that started it sees it. All but the goroutine in listen belongs to the fleet.
type member struct {
	plan.Range

	index   int
	process int // 0 if it lives in this one
	orders  io.WriteCloser
	speak   speaker
	end     func() // at once

	stats drive.Stats // the last that it told, without histograms
	said  said        // what was made of them last
	done  bool        // it has said that it is
	fault string      // that it told, with done
	gone  bool        // it is not there any more
	died  bool        // and it should be
}

// tiding is what comes from a member.
type tiding struct {
	member *member
	news   *news
	err    error // with no news: how the member ended
}

// startProcess starts a worker as a process; kill ends ctx, and it.
func startProcess(ctx context.Context, kill func(), command []string, inbox chan<- tiding, wg *sync.WaitGroup) (*member, error) {
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
	m := &member{orders: in, speak: newSpeaker(in), end: kill, process: cmd.Process.Pid}
	wg.Go(func() {
		defer kill()
		err := m.listen(out, inbox)
		if ended := cmd.Wait(); ended != nil {
			err = ended
		}
		if err != nil && said.String() != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		inbox <- tiding{member: m, err: err}
	})
	return m, nil
}

// startHere starts a worker in this process; kill ends ctx, and it.
func startHere(ctx context.Context, kill func(), inbox chan<- tiding, wg *sync.WaitGroup) *member {
	ordersOut, ordersIn := io.Pipe()
	newsOut, newsIn := io.Pipe()
	m := &member{orders: ordersIn, speak: newSpeaker(ordersIn), end: kill}
	ended := make(chan error, 1) // one send
	wg.Go(func() {
		err := Work(ctx, ordersOut, newsIn)
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
		inbox <- tiding{member: m, err: err}
	})
	return m
}

// listen passes on what the member tells, until it ends. An end that it has announced is no error.
func (m *member) listen(from io.Reader, inbox chan<- tiding) error {
	decoder := gob.NewDecoder(from)
	announced := false
	for {
		n := new(news)
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
		inbox <- tiding{member: m, news: n}
	}
}

// head keeps the beginning of what a process says.
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
