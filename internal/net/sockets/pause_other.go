//go:build !linux

package sockets

import (
	"errors"
	"net"
)

// stopListening is possible on Linux only.
func stopListening(int) error { return errors.ErrUnsupported }

func listenAgain(int, net.Addr) error { return errors.ErrUnsupported }
