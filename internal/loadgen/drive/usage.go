package drive

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Usage returns this process's resident memory in bytes and the time that it has computed; zero
// where the kernel does not say.
func Usage() (memory uint64, cpu time.Duration) {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(text); len(fields) > 1 {
			pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
			memory = pages * uint64(os.Getpagesize())
		}
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return memory, cpu
}
