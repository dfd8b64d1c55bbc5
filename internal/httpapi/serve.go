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

	"github.com/holter-iot/holter/internal/net/sockets"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	answerTimeout     = time.Minute // streams have a deadline for each write instead
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	shutdownTimeout   = 5 * time.Second
)

// Serve serves the API on a listener and listens to heartbeats until ctx is done. Then it accepts
// no more connections, ends the streams with a comment, waits at most 5 s for running requests,
// closes the remaining connections and returns nil. It always closes the listener. An error means
// that the listener failed, or that the clock of the heartbeats could not run. With [Config.TLS] it
// speaks HTTPS. It speaks only HTTP/1.1, where a connection is one request at a time, which is what
// the limits count. Call it once.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard := make(chan error, 1) // capacity 1 for the error, then closed
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
	failed := make(chan error, 1) // capacity 1 for the error, then closed
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
	for range failed { // the error of a closed listener
	}
	return nil
}

// stopKey is the key of the context of Serve in the context of a request, which outlives it.
type stopKey struct{}

// untilStop ends the context of a request when the server stops, for requests that have no end of
// their own, or a late one.
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
	return &http.Server{
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
		Protocols:         onlyHTTP1(),
		TLSConfig:         withMinVersion(a.config.TLS),
	}
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// withMinVersion returns a configuration with TLS 1.2 or later; nil for nil.
func withMinVersion(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return c
}

type connKey struct{}

// withConn puts the connection into the context of its requests.
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

// noteIdle records that a request was answered and the next one is awaited.
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

// expectNoInput records that no more input is expected on the connection of a request.
func expectNoInput(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.Hush()
	}
}
