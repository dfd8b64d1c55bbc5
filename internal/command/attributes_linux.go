package command

import "syscall"

// attributes puts a program into a process group of its own, and has it killed when the thread that starts it is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
