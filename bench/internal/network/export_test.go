package network

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls a function in the namespace of the machine.
func (h *Host) Do(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good, see newNamespace
		err := unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}
