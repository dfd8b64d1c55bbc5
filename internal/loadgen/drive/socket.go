package drive

import (
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// openSocket returns a TCP socket that does not block, bound to source if that is valid. The port
// is chosen only at connect, when the kernel knows the target: bound earlier, a port could serve
// one connection of all targets.
func openSocket(target netip.AddrPort, source netip.Addr) (int, error) {
	family := unix.AF_INET
	if target.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err == nil && source.IsValid() {
		err = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err == nil {
			err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(source, 0)))
		}
	}
	if err != nil {
		closeSocket(fd)
		return -1, os.NewSyscallError("bind", err)
	}
	return fd, nil
}

// resetSocket closes with RST.
func resetSocket(fd int) {
	// It cannot fail on an open socket.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	closeSocket(fd)
}

// closeSocket closes a descriptor. An error could only concern data that is no longer needed.
func closeSocket(fd int) { _ = unix.Close(fd) }

// read and write never block.
func read(fd int32, buffer []byte) (int, error) {
	return unix.Read(int(fd), buffer)
}

func write(fd int32, data []byte) (int, error) {
	n, err := unix.Write(int(fd), data)
	return max(n, 0), err
}

// causeOf names what went wrong.
func causeOf(err error) string {
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return CauseRefused
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return CauseReset
	case errors.Is(err, unix.ETIMEDOUT):
		return CauseTimeout
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		return CauseUnreachable
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EADDRINUSE):
		return CausePorts
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return CauseFiles
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return CauseMemory
	default:
		return err.Error()
	}
}
