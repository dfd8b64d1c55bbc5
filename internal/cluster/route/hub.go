package route

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/route/routepb"
	"github.com/holter-iot/holter/mqtt"
)

// Hub exchanges the messages of a broker, and of all spokes, with each of the spokes. Make one with
// [NewHub], register it, and keep [Hub.Run] running. All methods may be called concurrently.
type Hub struct {
	routepb.UnimplementedRouteServer

	config  Config
	broker  *mqtt.Broker
	counts  counters
	writers sync.WaitGroup

	mu     sync.Mutex       // guards the field below, and gone of its values
	spokes map[string]*peer // by name
}

// NewHub makes a broker a hub. It starts nothing.
func NewHub(b *mqtt.Broker, cfg Config) *Hub {
	return &Hub{config: cfg.withDefaults(), broker: b, spokes: make(map[string]*peer)}
}

// Register makes the hub's service one of a gRPC server.
func (h *Hub) Register(to grpc.ServiceRegistrar) { routepb.RegisterRouteServer(to, h) }

// Run drops what waits for spokes that have been away for a minute, until ctx is done. Then it returns
// once the streams have ended, which the gRPC server is to see to.
func (h *Hub) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			h.forget(now)
		case <-ctx.Done():
			h.writers.Wait()
			return nil
		}
	}
}

// forget forgets spokes that have been away for long.
func (h *Hub) forget(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.spokes {
		if !s.gone.IsZero() && now.Sub(s.gone) >= spokePatience {
			delete(h.spokes, name)
			s.leave()
		}
	}
}

// Stats returns a picture of the hub.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.spokes {
		if s.gone.IsZero() {
			n++
		}
	}
	return h.counts.stats(n)
}

// Exchange exchanges messages with a spoke for as long as its stream lasts. It is called by gRPC.
func (h *Hub) Exchange(stream routepb.Route_ExchangeServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello.GetName() == "" {
		return status.Error(codes.InvalidArgument, "the first batch has no Hello")
	}
	s, welcome := h.join(stream, hello)
	defer h.parted(s, stream)
	h.config.Logger.Info("MQTT messages are exchanged with an ear", "ear", hello.GetName())
	if err := stream.Send(&routepb.FromHub{Welcome: welcome}); err != nil {
		return err
	}
	h.writers.Go(func() { s.write(stream) }) // ends when Exchange has returned, or the connection has
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := s.receive(stream, m); err != nil {
			return err
		}
	}
}

// join makes a stream that of a spoke.
func (h *Hub) join(stream routepb.Route_ExchangeServer, hello *routepb.Hello) (*peer, *routepb.Welcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spokes[hello.GetName()]
	if s != nil && s.incarnation != hello.GetIncarnation() {
		s.leave()
		s = nil
	}
	if s == nil {
		s = &peer{hub: h, out: newOutQueue(h.config, &h.counts), incarnation: hello.GetIncarnation(), id: random()}
		s.remote = h.broker.Relay().Downstream(hello.GetName(), s)
		h.spokes[hello.GetName()] = s
	}
	s.gone = time.Time{}
	return s, s.attach(stream, hello)
}

// parted notes that a stream has ended.
func (h *Hub) parted(s *peer, stream routepb.Route_ExchangeServer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.detach(stream) {
		s.gone = time.Now()
	}
}
