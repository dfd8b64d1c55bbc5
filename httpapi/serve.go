package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	answerTimeout     = time.Minute // streams have a deadline for each write instead
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	shutdownTimeout   = 5 * time.Second
)

// Serve serves the API on a listener until ctx is done. Then it accepts nothing more, ends the streams with a comment, waits at most
// 5 s for what is under way, cuts off what is left, and returns nil. It closes the listener in any case. An error means that the
// listener failed.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.config.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1) // room for the one error; closed after it
	go func() {
		defer close(failed)
		failed <- server.Serve(limit(listener, a.config.MaxConnections))
	}()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("httpapi: serve: %w", err), server.Close())
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(stopCtx)
	if err != nil {
		a.config.Logger.Warn("connections cut off", "after", shutdownTimeout)
		_ = server.Close()
	}
	for range failed { // it ended when its listener was closed
	}
	return nil
}

// limit returns a listener that has at most n connections open at a time; others wait to be accepted.
func limit(l net.Listener, n int) net.Listener {
	return &limitListener{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

type limitListener struct {
	net.Listener

	places chan struct{} // holds a token for each open connection; never closed
	closed chan struct{} // closed by Close
	once   sync.Once
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, listener: l}, nil
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn

	listener *limitListener
	once     sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.listener.places })
	return err
}
