package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/internal/net/sockets"
)

// maxLoops is how many event loops there may be.
const maxLoops = 1024

// loop is an event loop's share of the gateway. Its fields belong to the loop's goroutine, unless
// said otherwise.
type loop struct {
	gateway  *Gateway
	events   *eventloop.Loop
	index    int
	exchange exchange
	wakes    wakes
	logins   map[*pendingReply]time.Duration // hellos about which their codecs have not decided, and when they were read
	passed   atomic.Uint64                   // markers; for all

	_ [64]byte
}

// planLoops sets how many event loops there are. If there may be more connections than the process
// may have files, each loop has a table of descriptors of its own.
func (g *Gateway) planLoops() {
	g.loopCount = g.config.Loops
	room := tableRoom()
	if g.config.MaxConnections <= room {
		return
	}
	most := min(sockets.MaxConnections()/(4*eventloop.FilesPerTable), maxLoops)
	err := eventloop.CanHaveTables()
	if err == nil && most < 2 {
		err = errors.New("the limit on open files is too low for that")
	}
	if err != nil {
		g.log.Warn("there can be no more connections than the process may have open files: its threads cannot have tables of their own",
			"error", err, "connections", room, "max_connections", g.config.MaxConnections, "help", "raise the limit on open files (ulimit -n)")
		return
	}
	loops := func() int { return (g.config.MaxConnections+mostLeaving)/room + 1 }
	room = min(room, sockets.MaxConnections()-eventloop.FilesPerTable*min(loops()+loops()/8+1, most)) // each loop's are open in all tables
	if loops() > most {
		g.log.Warn("there is not room for as many connections as there may be", "connections", most*room, "max_connections", g.config.MaxConnections,
			"help", "raise the limit on open files (ulimit -n)")
	}
	g.loopCount, g.loopRoom = min(max(g.loopCount, loops()), most), room
	g.log = slog.New(elsewhere{g.log.Handler()})
}

// elsewhere is a log that is written on goroutines of its own: the file that it writes to may be none
// in the table of an event loop, or another one.
type elsewhere struct{ slog.Handler }

// Handle implements [slog.Handler].
func (e elsewhere) Handle(ctx context.Context, r slog.Record) error {
	done := make(chan error)
	go func() { done <- e.Handler.Handle(ctx, r) }()
	return <-done
}

// WithAttrs implements [slog.Handler].
func (e elsewhere) WithAttrs(attrs []slog.Attr) slog.Handler {
	return elsewhere{e.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (e elsewhere) WithGroup(name string) slog.Handler { return elsewhere{e.Handler.WithGroup(name)} }

// tableRoom returns how many connections a table of descriptors has room for.
var tableRoom = sockets.MaxConnections //nolint:gochecknoglobals // tests set it

// newLoops makes the event loops. A marker that comes out of one is the listening time up to which
// it has read all that came in.
func (g *Gateway) newLoops() error {
	for i := range g.loopCount {
		l := &loop{gateway: g, index: i, exchange: exchange{gateway: g, counts: &g.counts.loops[i]}}
		passed := func(mark int64) {
			g.source.Watermark(i, l.handled(time.Duration(mark)))
			l.passed.Add(1)
		}
		var err error
		if g.loopRoom > 0 {
			l.events, err = eventloop.NewWithTable(passed, g.loopRoom)
		} else {
			l.events, err = eventloop.New(passed)
		}
		if err != nil {
			for _, made := range g.loops {
				made.events.Close()
			}
			return err
		}
		g.loops = append(g.loops, l)
	}
	return nil
}

// roomyLoop returns the event loop of the next connection: each in turn, as far as they have room.
func (g *Gateway) roomyLoop() *loop {
	n := g.counts.accepted.Load()
	for i := range uint64(len(g.loops)) {
		if l := g.loops[(n+i)%uint64(len(g.loops))]; l.events.HasRoom() {
			return l
		}
	}
	return g.loops[0] // it will say that it is full
}

// runLoops runs the event loops until ctx is done, and ends all connections then.
func (g *Gateway) runLoops(ctx context.Context) error {
	defer close(g.ended)
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range g.loops {
		group.Go(func() error { return l.events.Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// soon calls f on the event loop, or at once if l is nil. If the gateway ends, f is not called.
func (l *loop) soon(f func()) {
	if l == nil {
		f()
		return
	}
	_ = l.events.Execute(f)
}
