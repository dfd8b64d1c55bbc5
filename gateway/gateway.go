package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/commit"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// Gateway serves devices. Make one with [New] and call [Gateway.Run] once. Its other methods may be
// called concurrently.
type Gateway struct {
	config       Config
	limits       atomic.Pointer[limits] // those of config that may change
	log          *slog.Logger
	registry     *liveness.Registry
	open         bool // every device is admitted, whatever it shows
	source       *liveness.Source
	listeners    []*listener
	bound        []*listener   // all, in the order of Config.Listen
	addrs        []net.Addr    // in the order of config.Listen
	timers       *timer.Engine // deadlines of connections, in real time
	closings     pacedQueue[ending]
	lateHellos   pacedQueue[ending]
	probes       pacedQueue[transport] // devices that are to be asked for a sign of life
	holds        *commit.Queue[holding]
	lingering    linger
	addresses    keyCounts[netip.Addr] // connections
	failures     failures
	duplicateIDs duplicateIDs
	wakes        wakes             // of connections that belong to no event loop
	waiting      keyCounts[string] // messages to a device that Send has not written yet
	began        time.Time
	newcomers    newcomers
	large        newcomers       // of these, those for which much is held; see large.go
	full         counter[string] // of what there was too much, as it is logged
	odd          counter[Oddity] // what was unusual and tolerated
	loops        []*loop         // one for each event loop
	loopCount    int
	loopRoom     int        // for connections in a loop's own table of descriptors; 0 if they share that of the process
	tlsServer    *tlsServer // nil without TLS
	udp          udp
	ended        chan struct{} // closed once the event loops have ended

	connections atomic.Int64 // accepted and not yet closed
	closing     atomic.Bool  // the end of connections is the gateway's doing, not the devices'
	counts      counters
}

// New binds the addresses and adds the gateway to the registry's sources. ctx bounds the look-up of
// host names. New accepts nothing yet.
//
// Errors: a bad config, an address that cannot be bound (then none is), a source name that is
// taken.
func New(ctx context.Context, registry *liveness.Registry, cfg Config) (*Gateway, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{config: cfg, log: cfg.Logger, registry: registry, began: time.Now(), ended: make(chan struct{})}
	g.open = cfg.Guard == Password("")
	g.limits.Store(cfg.limits())
	g.initQueues()
	g.holds = commit.New(registry.AfterCommit, settleAll)
	g.newcomers.init(cfg.MaxNewcomers, newcomersPerAddress)
	g.large.init(mostLarge, mostLargeOf)
	g.planLoops()
	g.counts.loops = make([]loopCounters, g.loopCount)
	g.udp.gateway = g
	if err = g.listen(ctx); err == nil {
		err = g.addSources() //nolint:contextcheck // a source ends with the registry's Run
	}
	if err == nil {
		err = g.newLoops()
	}
	if err != nil {
		g.udp.close()
		g.closeListeners()
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return g, nil
}

// addSources adds the gateway's sources to the registry: that of connections, and those of TLS and of
// datagrams if there are listeners for them.
func (g *Gateway) addSources() (err error) {
	note := "device connections over TCP; its clock follows a marker through each event loop"
	if g.source, err = g.addSource("", note, g.loopCount); err != nil {
		return err
	}
	for _, l := range g.listeners {
		l.source = g.source
	}
	if g.tlsServer, err = g.newTLSServer(); err != nil {
		return err
	}
	return g.udp.start()
}

// ofPackets is the suffix of the source of datagrams.
const ofPackets = "-udp"

// addSource adds a source whose name is the gateway's with a suffix.
func (g *Gateway) addSource(suffix, note string, parts int) (*liveness.Source, error) {
	c := &g.config
	every := time.Duration(0)
	if c.Judge != nil { // the clock has no deadlines, and Pass waits for it
		every = passEvery
	}
	return g.registry.AddSource(liveness.SourceConfig{
		Name: c.Name + suffix, Note: note, Parts: parts, Pool: c.Pool, Every: every, Connectionless: suffix == ofPackets,
		ReconnectGrace: c.ReconnectGrace, ReconnectGraceMax: c.ReconnectGraceMax,
	})
}

// Addrs returns the bound addresses, in the order of Config.Listen.
func (g *Gateway) Addrs() []net.Addr {
	return slices.Clone(g.addrs)
}

// Source returns the gateway's source.
func (g *Gateway) Source() *liveness.Source { return g.source }

// Run serves until ctx is done. Then it accepts no more, says goodbye on every connection, and
// returns when all are closed; the devices keep their states. It returns an error only if it could
// not start or an event loop died.
func (g *Gateway) Run(ctx context.Context) (err error) {
	defer g.closeListeners()
	defer g.udp.close()
	defer func() { g.lingering.close(g.loopRoom > 0) }()
	if g.timers, err = timer.Start(timer.Config{}); err != nil { //nolint:contextcheck // an engine ends with Close
		return fmt.Errorf("gateway: %w", err)
	}
	defer func() { err = errors.Join(err, g.timers.Close(context.WithoutCancel(ctx))) }()
	g.source.Pulse(time.Now())                                      // the listening begins
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // of the event loops, which end after the listeners
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	if g.tlsServer != nil {
		g.tlsServer.start()
		group.Go(func() error { return g.tlsServer.run(ctx) })
	}
	group.Go(func() error { return g.runLoops(serving) })
	group.Go(func() error { return g.keepClock(ctx) })
	group.Go(func() error { return g.closings.run(ctx) })
	group.Go(func() error { return g.lateHellos.run(ctx) })
	group.Go(func() error { return g.probes.run(ctx) })
	group.Go(func() error {
		g.holds.Run(ctx)
		return nil
	})
	group.Go(func() error { return g.keepReviewing(ctx) })
	group.Go(func() error { return g.udp.run(ctx) })
	var accepting sync.WaitGroup
	for _, l := range g.listeners {
		for _, accepts := range l.accepts {
			accepting.Add(1)
			group.Go(func() error {
				defer accepting.Done()
				return g.accept(ctx, l, accepts)
			})
		}
	}
	group.Go(func() error {
		<-ctx.Done()
		g.closeListeners()
		accepting.Wait()
		g.closing.Store(true)
		if g.tlsServer != nil {
			g.tlsServer.stop()
		}
		stop()
		return nil
	})
	return group.Wait()
}
