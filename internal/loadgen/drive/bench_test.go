package drive_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

const childVariable = "DRIVE_TEST_SERVER"

// serveIfChild makes this program, if it was started to be one, a server that answers HELLO and PING and nothing else, with one epoll
// instance and one thread on the last processor.
func serveIfChild() {
	if os.Getenv(childVariable) == "" {
		return
	}
	pin(runtime.NumCPU() - 1)
	fmt.Fprintln(os.Stderr, serveTrivially())
	os.Exit(1) //nolint:revive // a child is not a test
}

func pin(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set) // a measurement without it is only noisier
}

func serveTrivially() error {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(listener, 4096); err != nil {
		return err
	}
	name, err := unix.Getsockname(listener)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "127.0.0.1:%d\n", name.(*unix.SockaddrInet4).Port)
	epoll, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	watch := func(fd int) {
		_ = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	watch(listener)
	events := make([]unix.EpollEvent, 512)
	in, out := make([]byte, 64<<10), make([]byte, 0, 128<<10)
	for {
		n, err := unix.EpollWait(epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			if fd == listener {
				for {
					conn, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK)
					if err != nil {
						break
					}
					watch(conn)
				}
				continue
			}
			n, err := unix.Read(fd, in)
			if n <= 0 {
				if err != unix.EAGAIN {
					unix.Close(fd) //nolint:errcheck // it is over
				}
				continue
			}
			out = out[:0]
			for data := in[:n]; len(data) > 0; {
				text, rest, _ := bytes.Cut(data, []byte("\n"))
				data = rest
				if seq, ok := bytes.CutPrefix(text, []byte("PING")); ok {
					out = append(append(append(out, "PONG"...), seq...), '\n')
				} else {
					out = append(out, "OK\n"...)
				}
			}
			_, _ = unix.Write(fd, out)
		}
	}
}

// startServer starts a trivial server in a process of its own.
func startServer(b *testing.B) string {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// connections is how many the benchmarks use: DRIVE_CONNECTIONS, or 2000.
func connections(b *testing.B) int {
	b.Helper()
	text := os.Getenv("DRIVE_CONNECTIONS")
	if text == "" {
		return 2000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func benchPlan(devices int, address string) *plan.Plan {
	p := &plan.Plan{Seed: 1, Devices: devices, Targets: []string{address}, Interval: time.Minute, Ramp: 20_000}
	p.Phases = []plan.Phase{{Name: "quiet", Length: time.Hour}}
	p.Fill()
	return p
}

// play runs devices on the first processor until the benchmark ends, and waits until all are welcomed.
func play(b *testing.B, cfg drive.Config) *drive.Drive {
	b.Helper()
	d, err := drive.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		pin(0) // the thread is locked and ends with this goroutine
		if err := d.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for d.Stats().Welcomed < cfg.Plan.Devices {
		<-tick.C
	}
	return d
}

// BenchmarkBeats sends heartbeats, more than a core can, to a trivial server on the other core, and waits for all answers. An operation is
// an answered heartbeat. The rate is planned too high on purpose, so that it says what a core can do.
func BenchmarkBeats(b *testing.B) {
	for _, c := range []struct {
		pipeline int
		rate     int // heartbeats/s
	}{{1, 10_000}, {1, 40_000}, {1, 1_000_000}, {16, 500_000}, {16, 10_000_000}} {
		b.Run(fmt.Sprintf("pipeline=%d/planned=%d", c.pipeline, c.rate), func(b *testing.B) {
			n := min(connections(b), 2000)
			p := benchPlan(n, startServer(b))
			p.Interval = max(time.Duration(n*c.pipeline)*time.Second/time.Duration(c.rate), 5*time.Millisecond)
			p.Timeout = time.Hour
			measure(b, drive.Config{Plan: p, Pipeline: c.pipeline})
		})
	}
}

// measure waits for b.N answers.
func measure(b *testing.B, cfg drive.Config) {
	b.Helper()
	d := play(b, cfg)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	first := d.Stats()
	last := first
	lateness, rtt := first.Histograms[drive.Lateness], first.Histograms[drive.RTT]
	lateness.Reset()
	rtt.Reset()
	b.ResetTimer()
	for last.Answered-first.Answered < uint64(b.N) {
		<-tick.C
		last = d.Stats()
		lateness.Merge(last.Histograms[drive.Lateness])
		rtt.Merge(last.Histograms[drive.RTT])
	}
	b.StopTimer()
	took, answered := last.At.Sub(first.At), float64(last.Answered-first.Answered)
	b.ReportMetric(answered/took.Seconds(), "beats/s")
	b.ReportMetric(float64((last.CPU-first.CPU).Microseconds())/answered, "cpu-µs/beat")
	b.ReportMetric(float64(lateness.ValueAtQuantile(99)), "late-p99-µs")
	b.ReportMetric(float64(rtt.ValueAtQuantile(99)), "rtt-p99-µs")
	if len(last.Errors) > 0 {
		b.Errorf("errors: %v", last.Errors)
	}
}

// BenchmarkMemory says what an idle connection costs in user space.
func BenchmarkMemory(b *testing.B) {
	n := connections(b)
	address := startServer(b)
	for b.Loop() {
		play(b, drive.Config{Plan: benchPlan(10, address)}) // what the first needs, all need
		debug.FreeOSMemory()
		before := memory(b)
		d := play(b, drive.Config{Plan: benchPlan(n, address)})
		resident := memory(b) - before
		debug.FreeOSMemory()
		b.ReportMetric(float64(resident)/float64(n), "B/connection")
		b.ReportMetric(float64(memory(b)-before)/float64(n), "B/connection-after-gc")
		runtime.KeepAlive(d)
	}
}

// memory is the process's resident memory.
func memory(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Anonymous:" {
			kilobytes, err := strconv.Atoi(fields[1])
			if err != nil {
				b.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	b.Fatal("no Anonymous: in smaps_rollup")
	return 0
}

// BenchmarkTick says what a grid of planned instants costs and saves, at 10,000 heartbeats a second.
func BenchmarkTick(b *testing.B) {
	for _, tick := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		b.Run("tick="+tick.String(), func(b *testing.B) {
			p := benchPlan(min(connections(b), 2000), startServer(b))
			p.Interval = time.Duration(p.Devices) * time.Second / 10_000
			p.Timeout = time.Hour
			measure(b, drive.Config{Plan: p, Tick: tick})
		})
	}
}
