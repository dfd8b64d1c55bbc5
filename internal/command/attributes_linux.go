package command

import "syscall"

// attributes puts a program into a process group of its own, and lets the system kill it when the thread
// that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
