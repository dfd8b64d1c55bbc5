package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// handler is what gnet calls, on its event loops. A panic here would end the process, so it ends
// the connection.
type handler struct {
	gateway *Gateway
}

// OnBoot implements gnet.EventHandler.
func (h handler) OnBoot(gnet.Engine) gnet.Action { return gnet.None }

// OnShutdown implements gnet.EventHandler. It is called before the loops stop.
func (h handler) OnShutdown(gnet.Engine) {}

// OnTick implements gnet.EventHandler; there is no ticker.
func (h handler) OnTick() (time.Duration, gnet.Action) { return time.Hour, gnet.None }

// OnOpen implements gnet.EventHandler.
func (h handler) OnOpen(gc gnet.Conn) (_ []byte, action gnet.Action) {
	defer h.guard(&action)
	switch c := gc.Context().(type) {
	case *conn:
		c.open(gc)
	case *probe:
		c.loop.events = gc.EventLoop()
	}
	return nil, gnet.None
}

// OnClose implements gnet.EventHandler.
func (h handler) OnClose(gc gnet.Conn, _ error) (action gnet.Action) {
	defer h.guard(&action)
	if c, ok := gc.Context().(*conn); ok && c.gnet != nil {
		c.closed()
	}
	return gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h handler) OnTraffic(gc gnet.Conn) (action gnet.Action) {
	defer h.guard(&action)
	switch c := gc.Context().(type) {
	case *conn:
		return c.traffic()
	case *probe:
		c.returned(gc)
	}
	return gnet.None
}

func (h handler) guard(action *gnet.Action) {
	if v := recover(); v != nil {
		h.gateway.counts.panics.Add(1)
		h.gateway.log.Error("a connection made the gateway panic; it is closed", "panic", v, "stack", string(debug.Stack()))
		*action = gnet.Close
	}
}

// logAdapter passes gnet's warnings and errors on.
type logAdapter struct{ log *slog.Logger }

func (a logAdapter) Debugf(string, ...any) {}

func (a logAdapter) Infof(string, ...any) {}

func (a logAdapter) Warnf(format string, args ...any) { a.write(slog.LevelWarn, format, args) }

func (a logAdapter) Errorf(format string, args ...any) { a.write(slog.LevelError, format, args) }

func (a logAdapter) Fatalf(format string, args ...any) { a.write(slog.LevelError, format, args) }

func (a logAdapter) write(level slog.Level, format string, args []any) {
	a.log.Log(context.Background(), level, "event loop", "message", formatted{format, args})
}

// formatted is a message that is put together only if it is logged.
type formatted struct {
	format string
	args   []any
}

// String implements [fmt.Stringer].
func (f formatted) String() string { return fmt.Sprintf(f.format, f.args...) }
