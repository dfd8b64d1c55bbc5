package command

import (
	"os"
	"syscall"
)

// attributes keeps the interrupts of the console from a program.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// kill ends a program. What it has started goes on.
func kill(p *os.Process) error { return p.Kill() }
