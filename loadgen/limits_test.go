package loadgen_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/loadgen"
)

func TestParts(t *testing.T) {
	command := []string{"x"}
	half := []plan.Phase{{Acts: []plan.Act{{Kind: plan.Duplicate, Share: 0.5}}}}
	tests := []struct {
		name      string
		cfg       loadgen.Config
		phases    []plan.Phase
		devices   int
		interval  time.Duration
		n         int
		processes bool
	}{
		{"small", loadgen.Config{Command: command}, nil, 1000, 30 * time.Second, 1, false},
		{"small and fast", loadgen.Config{Command: command}, nil, 1000, 100 * time.Millisecond, 1, true},
		{"small, as asked for", loadgen.Config{Command: command, Workers: 2}, nil, 1000, 30 * time.Second, 2, true},
		{"no command", loadgen.Config{}, nil, 100_000, 30 * time.Second, 1, false},
		{"one process", loadgen.Config{Command: command}, nil, 19_800, 30 * time.Second, 1, true},
		{"two processes", loadgen.Config{Command: command}, nil, 19_801, 30 * time.Second, 2, true},
		{"second connections", loadgen.Config{Command: command}, half, 19_800, 30 * time.Second, 2, true},
		{"large", loadgen.Config{Command: command}, nil, 1_000_000, time.Minute, 51, true},
		{"fewer devices than workers", loadgen.Config{Command: command, Workers: 9}, nil, 3, time.Minute, 3, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Plan = &plan.Plan{Devices: tt.devices, Interval: tt.interval, Phases: tt.phases}
			if n, processes := loadgen.Parts(tt.cfg, 20_000); n != tt.n || processes != tt.processes {
				t.Errorf("parts = %d, %t, want %d, %t", n, processes, tt.n, tt.processes)
			}
		})
	}
}

func TestDiagnose(t *testing.T) {
	tests := []struct {
		name           string
		causes, kernel map[string]uint64
		limits         []string
		text           string
	}{
		{"nothing", nil, nil, nil, ""},
		{"files", map[string]uint64{drive.CauseFiles: 3}, nil, []string{"open files"}, "each worker may open 20000"},
		{"ports", map[string]uint64{drive.CausePorts: 3}, nil, []string{"source ports"}, "28232 ports for each of 1 source addresses and 1 targets"},
		{"memory", nil, map[string]uint64{"TCPMemoryPressures": 2}, []string{"memory for sockets"}, "tcp_mem"},
		{"accept queue", nil, map[string]uint64{"ListenOverflows": 9}, []string{"the queue of connections to be accepted"}, "9 overflows"},
		{
			"accept queue of some program",
			map[string]uint64{drive.CauseNoWelcome: 2},
			map[string]uint64{"ListenOverflows": 9},
			[]string{"no welcome from the target", "the queue of connections to be accepted"},
			"the gateway or another",
		},
		{"SYN queue", nil, map[string]uint64{"TCPReqQFullDrop": 4}, []string{"the queue of handshakes"}, "tcp_max_syn_backlog"},
		{"no answer to SYN", map[string]uint64{drive.CauseTimeout: 5}, nil, []string{"handshakes without an answer"}, "firewall"},
		{"dropped", nil, map[string]uint64{"softnet drops": 5}, []string{"packets on their way to TCP"}, "netdev_max_backlog"},
		{
			"rejected for two reasons",
			map[string]uint64{drive.CauseRejected + ": auth": 2, drive.CauseRejected + ": full": 1},
			nil,
			[]string{"the target rejects devices"},
			"3 greetings were turned down (rejected: auth, rejected: full)",
		},
		{
			"several",
			map[string]uint64{drive.CauseClosed: 1, drive.CauseRefused: 4, drive.CauseFiles: 1},
			nil,
			[]string{"open files", "the target refuses", "the target hangs up"},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits, sentences := loadgen.Diagnose(tt.causes, tt.kernel)
			if !slices.Equal(limits, tt.limits) || !strings.Contains(strings.Join(sentences, " "), tt.text) {
				t.Errorf("diagnose = %q, %q, want %q with %q", limits, sentences, tt.limits, tt.text)
			}
		})
	}
}

func TestCounters(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "proc", "net"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"netstat":      "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 1 22\nIpExt: InOctets ListenOverflows\nIpExt: 5 6\n",
		"snmp":         "Ip: Forwarding\nIp: 1\nTcp: RetransSegs MaxConn\nTcp: 7 -1\n",
		"softnet_stat": "0000ffff 0000000a 0\n00000001 00000001 0\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "proc", "net", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := loadgen.Counters(dir)
	for name, want := range map[string]uint64{"ListenOverflows": 22, "RetransSegs": 7, "softnet drops": 11, "InOctets": 0, "MaxConn": 0} {
		if got[name] != want {
			t.Errorf("%s = %d, want %d", name, got[name], want)
		}
	}
	if n := len(loadgen.Counters(t.TempDir())); n != 0 {
		t.Errorf("without a kernel there are %d counters", n)
	}
}
