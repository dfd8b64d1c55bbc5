package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// The devices of the benchmarks are another process (this test binary again), so that what the
// gateway costs can be told from what they do. It reads orders, a line each, and answers "done".
const (
	caEnv   = "HOLTER_TEST_CA"   // the file with the authority that the devices know; empty: they do without TLS
	addrEnv = "HOLTER_TEST_ADDR" // where they connect to
)

// crowd plays devices that are ordered about.
type crowd struct {
	addr  string
	tls   *tls.Config
	conns []net.Conn
}

// crowdChild plays devices until its standard input ends.
func crowdChild() error {
	c := crowd{addr: os.Getenv(addrEnv)}
	if file := os.Getenv(caEnv); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c.tls = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
		c.tls.RootCAs.AppendCertsFromPEM(data)
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		what, count, _ := strings.Cut(orders.Text(), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		switch what {
		case "resume":
			c.tls.ClientSessionCache = tls.NewLRUClientSessionCache(16)
		case "handshakes":
			err = c.handshakes(n)
		case "open":
			err = c.open(n)
		case "beats":
			err = c.beats(n)
		case "rtt":
			err = c.rtt(n)
		case "flood":
			err = c.flood(n)
		}
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(os.Stdout, "done")
	}
	return orders.Err()
}

func (c *crowd) dial() (net.Conn, error) {
	conn, err := net.Dial("tcp", c.addr) //nolint:noctx // the process is killed
	if err != nil || c.tls == nil {
		return conn, err
	}
	tc := tls.Client(conn, c.tls)
	return tc, tc.Handshake() //nolint:noctx // the same
}

// each calls f n times, from four goroutines.
func each(n int, f func(i int) error) error {
	var group sync.WaitGroup
	errs := make(chan error, 4)
	for w := range 4 {
		group.Go(func() {
			for i := w; i < n; i += 4 {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// handshakes shakes hands n times, says hello and goes.
func (c *crowd) handshakes(n int) error {
	return each(n, func(i int) error {
		conn, err := c.dial()
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "HELLO h-%d ttl=1h\n", i%4); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 64)) // session tickets come with it
		return err
	})
}

// open opens n connections that stay.
func (c *crowd) open(n int) error {
	c.conns = make([]net.Conn, n)
	return each(n, func(i int) (err error) {
		if c.conns[i], err = c.dial(); err != nil {
			return err
		}
		if _, err = fmt.Fprintf(c.conns[i], "HELLO d-%d ttl=1h\n", i); err != nil {
			return err
		}
		_, err = c.conns[i].Read(make([]byte, 64))
		return err
	})
}

// beats sends n heartbeats over the connections that are open, and reads the answers.
func (c *crowd) beats(n int) error {
	var group sync.WaitGroup
	errs := make(chan error, len(c.conns))
	for w, conn := range c.conns {
		group.Go(func() {
			buf := make([]byte, 64)
			for i := w; i < n; i += len(c.conns) {
				if _, err := io.WriteString(conn, "PING\n"); err != nil {
					errs <- err
					return
				}
				if _, err := conn.Read(buf); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// rtt sends n heartbeats over each connection, some 20 ms apart, and prints how long the answers
// took: the median, and what 99 % took at most, in microseconds.
func (c *crowd) rtt(n int) error {
	var mu sync.Mutex // guards all
	var all []time.Duration
	var group sync.WaitGroup
	errs := make(chan error, len(c.conns))
	for _, conn := range c.conns {
		group.Go(func() {
			buf := make([]byte, 64)
			for range n {
				time.Sleep(rand.N(40 * time.Millisecond))
				began := time.Now()
				if _, err := io.WriteString(conn, "PING\n"); err != nil {
					errs <- err
					return
				}
				if _, err := conn.Read(buf); err != nil {
					errs <- err
					return
				}
				took := time.Since(began)
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	close(errs)
	slices.Sort(all)
	_, _ = fmt.Fprintln(os.Stdout, all[len(all)/2].Microseconds(), all[len(all)*99/100].Microseconds())
	return <-errs
}

// flood begins n handshakes a second for 3 s, and does not wait for one to be done before the next.
func (c *crowd) flood(n int) error {
	var group sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(n))
	defer tick.Stop()
	for range 3 * n {
		<-tick.C
		group.Go(func() {
			if conn, err := c.dial(); err == nil {
				_ = conn.Close()
			}
		})
	}
	group.Wait()
	return nil
}

// bench is a gateway and a crowd.
type bench struct {
	b       *testing.B
	gateway *gateway.Gateway
	ca      string // the file; empty without TLS
	in      io.WriteCloser
	out     *bufio.Reader
}

func startBench(b *testing.B, secure, rsa bool) *bench {
	b.Helper()
	return startBenchWith(b, secure, rsa, gateway.Config{})
}

func startBenchWith(b *testing.B, secure, rsa bool, cfg gateway.Config) *bench {
	b.Helper()
	log, err := eventlog.New(1)
	if err != nil {
		b.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ca := testcert.New(b)
	l, file := []gateway.Listener{{Address: "127.0.0.1:0"}}[0], ""
	if secure {
		l.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(b, testcert.Ask{Name: "gateway", RSA: rsa})}}
		file = testcert.Write(b, b.TempDir(), "ca.pem", ca.PEM())
	}
	cfg.Listen, cfg.Logger = []gateway.Listener{l}, slog.New(slog.DiscardHandler)
	g, err := gateway.New(b.Context(), registry, cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	registryCtx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			b.Error(err)
		}
		end()
	})
	running.Go(func() {
		if err := registry.Run(registryCtx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	be := &bench{b: b, gateway: g, ca: file}
	be.crowd()
	return be
}

// crowd starts another crowd, which is the one that orders go to then, and returns the one before.
func (be *bench) crowd() bench {
	b, before := be.b, *be
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=crowd", addrEnv+"="+be.gateway.Addrs()[0].String(), caEnv+"="+be.ca)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	be.in, be.out = in, bufio.NewReader(out)
	return before
}

// order has the crowd do something and waits until it is done.
func (be *bench) order(format string, args ...any) {
	be.b.Helper()
	if _, err := fmt.Fprintf(be.in, format+"\n", args...); err != nil {
		be.b.Fatal(err)
	}
	if line, err := be.out.ReadString('\n'); line != "done\n" {
		be.b.Fatalf("the crowd failed at %q: %v", fmt.Sprintf(format, args...), err)
	}
}

// cpu returns the time that this process has computed.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What a handshake costs the gateway: a new connection, a hello, its end.
func BenchmarkTLSHandshake(b *testing.B) {
	for _, key := range []string{"ecdsa-p256", "rsa-2048"} {
		for _, resume := range []bool{false, true} {
			b.Run(fmt.Sprintf("key=%s/resumed=%v", key, resume), func(b *testing.B) {
				be := startBench(b, true, key == "rsa-2048")
				if resume {
					be.order("resume 1")
				}
				be.order("handshakes 16")
				before := cpu(b)
				b.ResetTimer()
				be.order("handshakes %d", b.N)
				b.StopTimer()
				b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/handshake")
				if st := be.gateway.Stats(); resume != (st.Resumed >= uint64(b.N)) {
					b.Errorf("resumed = %d of %d", st.Resumed, st.Handshakes)
				}
			})
		}
	}
}

// What a connection that says nothing costs.
func BenchmarkTLSIdle(b *testing.B) {
	const n = 10_000
	for _, secure := range []bool{false, true} {
		b.Run(fmt.Sprintf("tls=%v/n=%d", secure, n), func(b *testing.B) {
			for b.Loop() {
				be := startBench(b, secure, false)
				heap, stacks, resident := memory(b)
				be.order("open %d", n)
				heap2, stacks2, resident2 := memory(b)
				b.ReportMetric(float64(heap2-heap)/n, "heap-B/conn")
				b.ReportMetric(float64(stacks2-stacks)/n, "stack-B/conn")
				b.ReportMetric(float64(resident2-resident)/n, "resident-B/conn")
			}
		})
	}
}

// memory returns the bytes that are in use on the heap and in stacks, and of memory, after all that
// can be freed is.
func memory(b *testing.B) (heap, stacks, resident int64) {
	b.Helper()
	for range 5 { // stacks shrink by half each time
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return int64(m.HeapAlloc), int64(m.StackInuse), pages * int64(os.Getpagesize())
}

// What handshakes do to devices that are connected. The machine is the same for all, so what the
// clients compute disturbs as well.
func BenchmarkTLSDisturbed(b *testing.B) {
	for _, most := range []int{1, 2, 8, 1000} {
		b.Run(fmt.Sprintf("handshakes=1000/max=%d", most), func(b *testing.B) {
			for b.Loop() {
				be := startBenchWith(b, true, false, gateway.Config{MaxHandshakes: most})
				be.order("open 50")
				median, quiet := be.times("rtt 100")
				devices := be.crowd()
				flooded := make(chan struct{})
				go func() {
					defer close(flooded)
					be.order("flood 1000")
				}()
				disturbed, worst := devices.times("rtt 100")
				<-flooded
				b.ReportMetric(median, "p50-µs")
				b.ReportMetric(quiet, "p99-µs")
				b.ReportMetric(disturbed, "disturbed-p50-µs")
				b.ReportMetric(worst, "disturbed-p99-µs")
				b.ReportMetric(float64(be.gateway.Stats().Handshakes-50)/3, "handshakes/s")
			}
		})
	}
}

// times has the crowd measure how long answers take.
func (be *bench) times(order string) (median, p99 float64) {
	be.b.Helper()
	if _, err := fmt.Fprintln(be.in, order); err != nil {
		be.b.Fatal(err)
	}
	if _, err := fmt.Fscanf(be.out, "%g %g\ndone\n", &median, &p99); err != nil {
		be.b.Fatal(err)
	}
	return median, p99
}

// How many heartbeats one core carries, each with its answer.
func BenchmarkTLSBeats(b *testing.B) {
	for _, secure := range []bool{false, true} {
		b.Run(fmt.Sprintf("tls=%v/n=100", secure), func(b *testing.B) {
			be := startBench(b, secure, false)
			be.order("open 100")
			before := cpu(b)
			b.ResetTimer()
			be.order("beats %d", b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/(cpu(b)-before).Seconds(), "beats/core-s")
		})
	}
}
