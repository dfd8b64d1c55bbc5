//go:build unix

package command

import (
	"errors"
	"os"
	"syscall"
)

// kill ends a program with all of its process group.
func kill(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
