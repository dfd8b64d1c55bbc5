//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// newNamespace makes a network namespace with an interface.
func newNamespace(address netip.Addr) (namespace, device *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread, which is in the namespace, ends with this function
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("make a network namespace: %w", err)
			return
		}
		if err = configure("lo"); err != nil {
			return
		}
		if device, err = newInterface("eth0", address); err != nil {
			return
		}
		if namespace, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			err = errors.Join(err, device.Close())
		}
	}()
	<-done
	return namespace, device, err
}

// newInterface makes an interface in the namespace of this thread. Its packets are read from and written to the file.
func newInterface(name string, addresses ...netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = configure(request.Name(), addresses...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make an interface: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// configure gives an interface its addresses, and starts it.
func configure(name string, addresses ...netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // it has nothing to lose
	for i, a := range addresses {
		label := name
		if i > 0 {
			label = fmt.Sprintf("%s:%d", name, i)
		}
		for _, set := range []struct {
			what uint
			to   []byte
		}{{unix.SIOCSIFADDR, a.AsSlice()}, {unix.SIOCSIFNETMASK, []byte{255, 255, 255, 0}}} {
			request, err := unix.NewIfreq(label)
			if err == nil {
				err = request.SetInet4Addr(set.to)
			}
			if err == nil {
				err = unix.IoctlIfreq(fd, set.what, request)
			}
			if err != nil {
				return fmt.Errorf("give %s the address %v: %w", label, a, err)
			}
		}
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request)
	}
	if err == nil {
		request.SetUint16(request.Uint16() | unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	return err
}
