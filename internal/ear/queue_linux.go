package ear

import "golang.org/x/sys/unix"

// queued returns how many connections wait to be accepted at a listening TCP socket, and false if it is none. The kernel tells it in
// tcpi_unacked (tcp_get_info).
func queued(fd int) (uint64, bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return uint64(info.Unacked), true
}
