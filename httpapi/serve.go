package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/holter-iot/holter/internal/sockets"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	answerTimeout     = time.Minute // streams have a deadline for each write instead
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	shutdownTimeout   = 5 * time.Second
)

// Serve serves the API on a listener until ctx is done, and listens to heartbeats meanwhile. Then it accepts nothing more, ends the
// streams with a comment, waits at most 5 s for what is under way, cuts off what is left, and returns nil. It closes the listener in any
// case. An error means that the listener failed, or that nothing could be listened to. With [Config.TLS] it speaks HTTPS. It speaks
// HTTP/1.1 only: there a connection is a request at a time, which is what the limits count. Call it once.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard := make(chan error, 1) // room for the one error; closed after it
	go func() {
		defer close(heard)
		if err := a.Listen(ctx); err != nil {
			heard <- err
			stop()
		}
	}()
	err := a.serve(ctx, listener)
	stop()
	return errors.Join(err, <-heard)
}

func (a *API) serve(ctx context.Context, listener net.Listener) error {
	requests, cutOff := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), stopKey{}, ctx))
	defer cutOff()
	server := a.server(requests)
	limited, err := a.sockets.Limit(listener, a.config.MaxConnections)
	if err != nil {
		return errors.Join(fmt.Errorf("httpapi: %w", err), listener.Close())
	}
	failed := make(chan error, 1) // room for the one error; closed after it
	go func() {
		defer close(failed)
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(limited, "", "")
			return
		}
		failed <- server.Serve(limited)
	}()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("httpapi: serve: %w", err), server.Close())
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(stopCtx); err != nil {
		a.config.Logger.Warn("open connections closed at shutdown", "after", shutdownTimeout)
		_ = server.Close()
	}
	for range failed { // it ended when its listener was closed
	}
	return nil
}

// stopKey is the key of the context of Serve in that of a request, which outlives it: what is under way is finished.
type stopKey struct{}

// untilStop ends the context of a request when the server stops: of one that has no end of its own, or a late one.
func untilStop(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if stop, ok := r.Context().Value(stopKey{}).(context.Context); ok {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(stop, cancel)() //nolint:contextcheck // that of Serve is to end it, too
			r = r.WithContext(ctx)
		}
		next(w, r)
	}
}

// server returns a server that is not started. The contexts of its requests end with ctx.
func (a *API) server(ctx context.Context) *http.Server {
	server := &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.config.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ConnState:         noteIdle,
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	if a.config.TLS != nil {
		server.TLSConfig = a.config.TLS.Clone()
		server.TLSConfig.MinVersion = max(server.TLSConfig.MinVersion, tls.VersionTLS12)
	}
	return server
}

type connKey struct{}

// withConn lets a request find its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, plain(c))
}

// plain returns the connection below TLS.
func plain(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// noteIdle notes that the answer to a request is written, and the next one is waited for.
func noteIdle(c net.Conn, state http.ConnState) {
	if tracked, ok := plain(c).(*sockets.Conn); ok && state == http.StateIdle {
		tracked.End()
	}
}

// connOf returns the connection of a request, or nil if it is not one of Serve's.
func connOf(ctx context.Context) *sockets.Conn {
	c, _ := ctx.Value(connKey{}).(*sockets.Conn)
	return c
}

// hush says that nothing is expected on the connection of a request any more, and nobody reads from it.
func hush(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.Hush()
	}
}
