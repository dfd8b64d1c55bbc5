package sockets

import (
	"errors"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopListening makes a listening TCP socket one that is only bound (tcp_disconnect).
func stopListening(fd int) error {
	return os.NewSyscallError("shutdown", unix.Shutdown(fd, unix.SHUT_RD))
}

// listenAgain makes it listen where it did. The system bounds the backlog (net.core.somaxconn).
func listenAgain(fd int, at net.Addr) error {
	if err := bindAgain(fd, portOf(at)); err != nil {
		return err
	}
	return os.NewSyscallError("listen", unix.Listen(fd, 1<<16-1))
}

// LeaveGroup takes a UDP socket out of those that get the datagrams to its address, until
// [JoinGroup]: a socket that is connected gets only what its peer sends, and this one is its own peer. What
// it holds can be read still.
func LeaveGroup(socket syscall.RawConn) error {
	return control(socket, func(fd int) error {
		own, err := unix.Getsockname(fd)
		if err != nil {
			return os.NewSyscallError("getsockname", err)
		}
		return os.NewSyscallError("connect", unix.Connect(fd, own))
	})
}

// JoinGroup has a UDP socket get datagrams again. at is its address.
func JoinGroup(socket syscall.RawConn, at net.Addr) error {
	return control(socket, func(fd int) error {
		nobody := unix.RawSockaddr{Family: unix.AF_UNSPEC}
		if _, _, failed := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nobody)), unsafe.Sizeof(nobody)); failed != 0 {
			return os.NewSyscallError("connect", failed)
		}
		return bindAgain(fd, portOf(at))
	})
}

func portOf(a net.Addr) int {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.Port
	case *net.UDPAddr:
		return a.Port
	}
	return 0
}

// bindAgain binds a socket to its port if it has lost that: the kernel gives up one that it has chosen
// itself, for port 0.
func bindAgain(fd, port int) error {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch a := own.(type) {
	case *unix.SockaddrInet4:
		a.Port = port
	case *unix.SockaddrInet6:
		a.Port = port
	}
	if err = unix.Bind(fd, own); errors.Is(err, unix.EINVAL) { // it has the port still
		return nil
	}
	return os.NewSyscallError("bind", err)
}
