package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/net/kernelfs"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/terminal"
)

// fakeMachine has files of the kernel.
func fakeMachine(t *testing.T, files map[string]string) machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return machine{kernelfs.Root(root)}
}

// found lists what a doctor found, as LEVEL CHECK.
func (d *doctor) found() []string {
	all := []string{}
	for _, f := range d.findings {
		all = append(all, string(f.Level)+" "+f.Check)
	}
	return all
}

// wants checks what a doctor found.
func (d *doctor) wants(t *testing.T, want ...string) {
	t.Helper()
	if got := d.found(); !reflect.DeepEqual(got, want) {
		t.Errorf("found %q, want %q: %+v", got, want, d.findings)
	}
}

func TestDoctorLimits(t *testing.T) {
	big := map[string]string{
		"proc/42/limits":                          "Limit   Soft   Hard   Units\nMax open files            1100000              unlimited            files\n",
		"proc/sys/fs/file-nr":                     "1000\t0\t9223372036854775807\n",
		"proc/sys/net/core/somaxconn":             "4096\n",
		"proc/sys/net/ipv4/ip_local_port_range":   "1024\t65535\n",
		"proc/sys/net/ipv4/tcp_mem":               "1000000\t1500000\t2000000\n",
		"proc/sys/net/netfilter/nf_conntrack_max": "2000000\n", "proc/sys/net/netfilter/nf_conntrack_count": "10\n",
		"proc/meminfo":     "MemTotal:       33554432 kB\nMemAvailable:   31457280 kB\n",
		"proc/self/cgroup": "0::/system.slice/holter.service\n",
		"sys/fs/cgroup/system.slice/holter.service/memory.max": "max\n",
	}
	allOK := "ok open files, ok files of all, ok backlog, ok local ports, ok socket memory, ok connection tracking, ok memory"
	tests := []struct {
		name        string
		connections int
		files       map[string]string // instead of those above; "" for none
		want        string
		texts       []string
	}{
		{"all is well", 50_000, nil, allOK, []string{"the server, process 42 may open 1,100,000 files, enough for 1,067,000 connections"}},
		{"no plan", 0, nil, allOK, nil},
		{"a million", 1_000_000, nil, strings.Replace(allOK, "ok local ports", "warn local ports", 1), []string{"64,512: so many connections", "and 1,000,000 are to come"}},
		{
			"too few files", 50_000,
			map[string]string{"proc/42/limits": "Max open files  1024  4096  files\n"},
			strings.Replace(allOK, "ok open files", "fail open files", 1),
			[]string{"enough for 896 connections, not for 50,000", "LimitNOFILE=52000"},
		},
		{
			"files that a restart gives", 50_000,
			map[string]string{"proc/42/limits": "Max open files  1024  100000  files\n"},
			strings.Replace(allOK, "ok open files", "warn open files", 1),
			[]string{"Start the server again: it raises the limit itself, up to 100,000."},
		},
		{
			"all files", 50_000,
			map[string]string{"proc/sys/fs/file-nr": "60000\t0\t100000\n"},
			strings.Replace(allOK, "ok files of all", "fail files of all", 1),
			[]string{"may open 40,000 more files", "fs.file-max=160000"},
		},
		{"backlog", 50_000, map[string]string{"proc/sys/net/core/somaxconn": "128"}, strings.Replace(allOK, "ok backlog", "warn backlog", 1), []string{"128 connections may wait"}},
		{
			"socket memory", 50_000,
			map[string]string{"proc/sys/net/ipv4/tcp_mem": "10000 40000 80000"},
			strings.Replace(allOK, "ok socket memory", "warn socket memory", 1),
			[]string{"TCP may take 312 MiB"},
		},
		{
			"no socket memory", 90_000,
			map[string]string{"proc/sys/net/ipv4/tcp_mem": "10000 40000 80000"},
			strings.Replace(strings.Replace(allOK, "ok socket memory", "fail socket memory", 1), "ok local ports", "warn local ports", 1),
			[]string{`tcp_mem="90000 135000 180000"`},
		},
		{
			"connection tracking", 50_000,
			map[string]string{"proc/sys/net/netfilter/nf_conntrack_max": "30000"},
			strings.Replace(allOK, "ok connection tracking", "warn connection tracking", 1),
			[]string{"not enough for 50,000 more", "nf_conntrack_max=100000"},
		},
		{
			"connection tracking that is full", 0,
			map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "1990000"},
			strings.Replace(allOK, "ok connection tracking", "fail connection tracking", 1),
			[]string{"are about to be dropped"},
		},
		{
			"the control group's memory", 60_000,
			map[string]string{
				"sys/fs/cgroup/system.slice/memory.max": "268435456", "sys/fs/cgroup/system.slice/memory.current": "1048576",
			},
			strings.Replace(allOK, "ok memory", "fail memory", 1),
			[]string{"the control group has 256 MiB, of which 255 MiB are free; 60,000 idle connections take about 352 MiB"},
		},
		{
			"little memory", 0,
			map[string]string{"proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 20000 kB\n"},
			strings.Replace(allOK, "ok memory", "warn memory", 1), nil,
		},
		{
			"another kernel", 0,
			map[string]string{
				"proc/sys/fs/file-nr": "", "proc/sys/net/core/somaxconn": "x", "proc/sys/net/ipv4/ip_local_port_range": "1", "proc/sys/net/ipv4/tcp_mem": "a b c",
				"proc/sys/net/netfilter/nf_conntrack_max": "", "proc/meminfo": "",
			},
			"ok open files", nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			maps.Copy(files, big)
			maps.Copy(files, tt.files)
			d := &doctor{machine: fakeMachine(t, files)}
			d.checkLimits(42, tt.connections, perConnection(nil))
			d.wants(t, strings.Split(tt.want, ", ")...)
			for _, text := range tt.texts {
				if !strings.Contains(fmt.Sprint(d.findings), text) {
					t.Errorf("%q is missing from %+v", text, d.findings)
				}
			}
		})
	}
}

// The limits of this process stand for those of a server that does not run.
func TestDoctorOwnLimits(t *testing.T) {
	d := &doctor{machine: fakeMachine(t, nil)}
	d.checkLimits(0, 1<<30, perConnection(nil))
	d.wants(t, "fail open files")
	if help := d.findings[0].Help; !strings.Contains(help, "gateway.max_connections: 1073741824 in the configuration") {
		t.Errorf("help %q", help)
	}
	d = &doctor{machine: fakeMachine(t, nil), mostConnections: 1 << 30}
	d.checkLimits(0, 1<<30, perConnection(nil))
	d.wants(t, "ok open files")
}

func TestDoctorStore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(filepath.Join(data, "holter.db"), 0o700), os.MkdirAll(filepath.Join(dir, "full"), 0o700),
		os.WriteFile(filepath.Join(dir, "full", "holter.db"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		cfg  config.Config
		err  error // of opening
		want []string
		text string
	}{
		{"nothing there yet", config.Config{Data: filepath.Join(dir, "new")}, nil, []string{"ok data directory"}, "the server makes it"},
		{"cannot be made", config.Config{Data: "/proc/none"}, nil, []string{"fail data directory"}, "cannot be made"},
		{"not a directory", config.Config{Data: file}, nil, []string{"fail data directory"}, "is a file"},
		{"below a file", config.Config{Data: filepath.Join(file, "x")}, nil, []string{"fail data directory"}, "not a directory"},
		{"cannot be written", config.Config{Data: "/proc"}, nil, []string{"fail data directory", "ok lock", "ok database"}, "/proc cannot be written"},
		{"no database", config.Config{Data: dir}, nil, []string{"ok data directory", "ok lock", "ok database"}, "is not there yet"},
		{"a directory for a database", config.Config{Data: data}, nil, []string{"ok data directory", "ok lock", "fail database"}, "is a directory"},
		{"a database", config.Config{Data: filepath.Join(dir, "full")}, nil, []string{"ok data directory", "ok lock", "ok database"}, "it opens"},
		{
			"a database that does not open",
			config.Config{Data: filepath.Join(dir, "full")},
			unix.EIO,
			[]string{"ok data directory", "ok lock", "fail database"},
			"input/output error",
		},
		{"a server that is away", config.Config{Database: config.NewSecret("postgres://u:hunter2@h/d")}, unix.ECONNREFUSED, []string{"fail database"}, "is this its address?"},
		{"a bad URL", config.Config{Database: config.NewSecret("x")}, sqldb.ErrBadURL, []string{"fail database"}, sqldb.ErrBadURL.Error()},
		{"a newer version", config.Config{Database: config.NewSecret("mysql://u:hunter2@h/d")}, sqldb.ErrNewerSchema, []string{"fail database"}, sqldb.ErrNewerSchema.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &doctor{
				machine: fakeMachine(t, nil), storeOf: func(context.Context, config.Config) (int, error) { return 0, tt.err },
				surveyOf: func(context.Context, config.Config) (sqldb.Survey, error) { return sqldb.Survey{}, tt.err },
			}
			if server := d.checkStore(t.Context(), tt.cfg); server != 0 {
				t.Errorf("server = %d", server)
			}
			// How much is free on the machine that runs the test is not its matter.
			for i := range d.findings {
				if f := &d.findings[i]; f.Check == "data directory" && strings.Contains(f.Text, "can be written,") {
					f.Level = LevelOK
				}
			}
			d.wants(t, tt.want...)
			if text := fmt.Sprint(d.findings); !strings.Contains(text, tt.text) || strings.Contains(text, "hunter2") {
				t.Errorf("%q is missing from %s", tt.text, text)
			}
		})
	}
}

func TestDoctorDamagedDevices(t *testing.T) {
	d := &doctor{machine: fakeMachine(t, nil), storeOf: func(context.Context, config.Config) (int, error) { return 2, nil }}
	d.checkDatabase(t.Context(), config.Config{})
	d.wants(t, "ok database", "warn damaged devices")
	if text := fmt.Sprint(d.findings); !strings.Contains(text, "2 rows of devices could not be read and are set aside in the table set_aside") {
		t.Error(text)
	}
}

// A log that lies aside is told of until somebody removes it.
func TestDoctorLogAside(t *testing.T) {
	cfg := config.Config{Data: t.TempDir()}
	d := &doctor{machine: fakeMachine(t, nil), storeOf: func(context.Context, config.Config) (int, error) { return 0, nil }}
	d.checkDatabase(t.Context(), cfg)
	if err := os.WriteFile(filepath.Join(cfg.Data, "holter.db.lost-wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.checkDatabase(t.Context(), cfg)
	d.wants(t, "ok database", "ok database", "warn log aside")
}

func TestDoctorLostDatabase(t *testing.T) {
	cfg := config.Config{Data: filepath.Join(t.TempDir(), "data")}
	db, err := sqldb.New(server.DatabaseConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(db, cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.Data, "holter.db")
	if err := errors.Join(s.Open(t.Context()), s.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	d := &doctor{machine: fakeMachine(t, nil), storeOf: probeStore}
	d.checkStore(t.Context(), cfg)
	if text := fmt.Sprint(d.findings); !strings.Contains(text, "the file is not there") || !strings.Contains(text, "--accept-loss") {
		t.Error(text)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the doctor made the file")
	}
}

func TestDoctorSpace(t *testing.T) {
	tests := []struct {
		name  string
		space disk
		want  string
	}{
		{"enough", disk{free: 10 << 30, total: 100 << 30, freeFiles: 1e6, allFiles: 2e6}, "ok disk"},
		{"little", disk{free: 500 << 20, total: 100 << 30}, "warn disk"},
		{"none", disk{free: 1 << 20, total: 100 << 30}, "fail disk"},
		{"no files", disk{free: 10 << 30, total: 100 << 30, freeFiles: 5, allFiles: 2e6}, "warn disk"},
		{"files without number", disk{free: 10 << 30, total: 100 << 30}, "ok disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d doctor
			d.judgeSpace("disk", "/data", tt.space)
			d.wants(t, tt.want)
		})
	}
}

// Who has a lock is found without touching it.
func TestDoctorLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), lockName)
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	here := machine{"/"}
	if holder := here.lockHolder(name); holder != 0 {
		t.Errorf("process %d holds a lock that nobody has", holder)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d := &doctor{machine: here}
	if server := d.checkLock(name); server != os.Getpid() {
		t.Errorf("process %d holds the lock, want %d", server, os.Getpid())
	}
	d.wants(t, "ok lock")
	if soft, hard, of := here.openFiles(os.Getpid()); soft == 0 || hard < soft || !strings.Contains(of, "the server") {
		t.Errorf("open files = %d, %d, %s", soft, hard, of)
	}
}

func TestDoctorUnreachable(t *testing.T) {
	for wanted, want := range map[bool]string{true: "fail API", false: "warn API"} {
		var d doctor
		d.checkAPI(t.Context(), apiclient.New("http://127.0.0.1:1", "", nil), wanted)
		d.wants(t, want)
	}
}

func TestDoctorCertificateAndClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	var d doctor
	for _, days := range []int{90, 3} {
		end := now.AddDate(0, 0, days)
		d.judgeCertificate(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: end}}}, now)
	}
	d.judgeCertificate(nil, now)
	d.judgeClock(true)
	d.judgeClock(false)
	d.wants(t, "ok certificate", "warn certificate", "ok clock", "warn clock")
}

func TestDoctorPrint(t *testing.T) {
	var d doctor
	d.ok("backlog", "4,096 connections may wait to be accepted")
	d.warn("clock", "nothing synchronises the wall clock: times in events may be wrong", "Run chrony or another NTP client.")
	d.fail("API", "the API at http://127.0.0.1:8080 does not answer: refused\nStart it with \"holter serve\"", "")
	tests := []struct {
		width int
		want  string
	}{
		{0, `ok    backlog              4,096 connections may wait to be accepted
warn  clock                nothing synchronises the wall clock: times in events may be wrong
                           Run chrony or another NTP client.
fail  API                  the API at http://127.0.0.1:8080 does not answer: refused
                           Start it with "holter serve"
`},
		{60, `ok    backlog              4,096 connections may wait to be
                           accepted
warn  clock                nothing synchronises the wall
                           clock: times in events may be
                           wrong
                           Run chrony or another NTP client.
fail  API                  the API at http://127.0.0.1:8080
                           does not answer: refused
                           Start it with "holter serve"
`},
	}
	for _, tt := range tests {
		var out strings.Builder
		for _, f := range d.findings {
			if err := f.write(&out, terminal.Screen{Width: tt.width}); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != tt.want {
			t.Errorf("width %d:\n%swant\n%s", tt.width, out.String(), tt.want)
		}
	}
	var out strings.Builder
	if err := Print(&out, d.findings, false); err == nil || err.Error() != "1 check failed" || !strings.HasSuffix(out.String(), "\n\n3 checks: 1 ok, 1 warning, 1 failed\n") {
		t.Errorf("print = %v\n%s", err, out.String())
	}
	out.Reset()
	if err := Print(&out, d.findings, true); err == nil || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("print = %v\n%s", err, out.String())
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 200 << 20: "200 MiB", 1 << 60: "1.0 EiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}
