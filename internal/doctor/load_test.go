package doctor

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestJudgeLoad(t *testing.T) {
	roomy := loadFacts{
		files: 20_000, nrOpen: 1_048_576, allFiles: 10_000_000, openNow: 1000, ports: 64_512, backlog: 4096, synBacklog: 2048, synCookies: true,
		inputQueue: 10_000, tcpLow: 1_000_000, tcpHigh: 2_000_000, reuse: 2, reuseKnown: true, timeWait: 131_072,
		tracking: true, trackMost: 262_144, memory: 32 << 30, free: 30 << 30, memoryOf: "this machine",
	}
	here := load{connections: 500_000, targets: 1, accepted: true, loopback: true}
	tests := []struct {
		name   string
		change func(*loadFacts, *load)
		want   []string // what is not ok
		texts  []string
	}{
		{"all is well", nil, nil, []string{
			"a process may open 20,000 files; needed: 26 processes of holter loadgen, which splits itself, and 26 processes of holter serve",
			"needed: 25 source addresses, which holter loadgen takes of 127.0.0.0/8 by itself",
		}},
		{"few connections", func(_ *loadFacts, l *load) { l.connections = 1 }, nil, []string{"1 process of holter loadgen", "needed: 1 source address,"}},
		{
			"no files", func(f *loadFacts, _ *load) { f.files = 256 },
			[]string{"fail load: processes"},
			[]string{"ulimit -n 20200 as root, LimitNOFILE=20200"},
		},
		{
			"few files, and a low ceiling", func(f *loadFacts, _ *load) { f.files, f.nrOpen = 1024, 4096 },
			[]string{"warn load: processes"},
			[]string{"needed: 607 processes", "sysctl -w fs.nr_open=25200, then ulimit -n 25200"},
		},
		{"a server elsewhere", func(_ *loadFacts, l *load) { l.accepted = false }, nil, []string{"splits itself ", "for the devices' ends"}},
		{
			"files of all", func(f *loadFacts, _ *load) { f.allFiles = 600_000 },
			[]string{"fail load: files of all"},
			[]string{"599,000 more files; needed: 1,020,000", "sysctl -w fs.file-max=2041000"},
		},
		{
			"addresses that are not here", func(f *loadFacts, l *load) {
				l.sources = 40
				for i := range 5 {
					f.noSuch = append(f.noSuch, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
				}
			},
			[]string{"fail load: sources"},
			[]string{"5 source addresses cannot be bound: 10.0.0.0, 10.0.0.1, 10.0.0.2, …", "ip addr add 10.0.0.0/32 dev lo"},
		},
		{
			"more connections than ports", func(f *loadFacts, l *load) { l.sources, f.ports = 10, 28_232 },
			[]string{"fail load: ports"},
			[]string{
				"10 source addresses × 1 target × 28,232 ports are 282,320 connections", "EADDRNOTAVAIL after 282,320",
				`36 source addresses with --source, or 16 after sysctl -w net.ipv4.ip_local_port_range="1024 65535"`,
			},
		},
		{
			"ports in their slow half", func(_ *loadFacts, l *load) { l.sources = 10 },
			[]string{"warn load: ports"},
			[]string{"50 times slower", "16 source addresses with --source\n"},
		},
		{"several targets", func(_ *loadFacts, l *load) { l.sources, l.targets = 8, 2 }, nil, []string{"8 source addresses × 2 targets"}},
		{
			"one address of the machine", func(_ *loadFacts, l *load) { l.loopback, l.accepted = false, false },
			[]string{"fail load: ports", "warn load: TIME_WAIT"},
			[]string{"1 source address × 1 target × 64,512 ports", "sysctl -w net.ipv4.tcp_tw_reuse=1"},
		},
		{
			"backlogs", func(f *loadFacts, _ *load) { f.backlog, f.synBacklog, f.inputQueue = 128, 128, 1000 },
			[]string{"warn load: backlog", "warn load: SYN backlog", "warn load: input queue"},
			[]string{"sysctl -w net.core.somaxconn=4096", "SYN cookies", "sysctl -w net.core.netdev_max_backlog=10000"},
		},
		{
			"no SYN cookies", func(f *loadFacts, _ *load) { f.synBacklog, f.synCookies = 128, false },
			[]string{"warn load: SYN backlog"},
			[]string{"TCPReqQFullDrop"},
		},
		{"backlogs for few", func(f *loadFacts, l *load) {
			l.connections, f.backlog, f.synBacklog, f.inputQueue = 1000, 128, 128, 1000
		}, nil, nil},
		{
			"TCP memory", func(f *loadFacts, _ *load) { f.tcpLow, f.tcpHigh, f.tcpNow = 200_000, 300_000, 1000 },
			[]string{"warn load: TCP memory"},
			[]string{"needed: 251,000", `sysctl -w net.ipv4.tcp_mem="251000 376500 502000"`},
		},
		{
			"TIME_WAIT", func(f *loadFacts, _ *load) { f.reuse = 0 },
			[]string{"warn load: TIME_WAIT"},
			[]string{"may not be used again", "sysctl -w net.ipv4.tcp_tw_reuse=2"},
		},
		{
			"a firewall at work", func(f *loadFacts, _ *load) { f.tracked = 44 },
			[]string{"fail load: tracking"},
			[]string{"262,144 connections, and follows 44; needed: 500,000 more", "nf_conntrack_max=1000044"},
		},
		{"a firewall with room", func(f *loadFacts, _ *load) { f.tracked, f.trackMost = 44, 1<<20 }, nil, nil},
		{
			"little free memory", func(f *loadFacts, _ *load) { f.free = 4 << 30 },
			[]string{"warn load: memory"},
			[]string{"needed: 5.2 GiB: 500,000 × 11.0 KiB for both ends", "343,658 fit"},
		},
		{
			"little memory", func(f *loadFacts, _ *load) { f.memory, f.free, f.memoryOf = 4<<30, 3<<30, "the control group" },
			[]string{"fail load: memory"},
			[]string{"the control group has 4.0 GiB"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, l := roomy, here
			if tt.change != nil {
				tt.change(&f, &l)
			}
			var d doctor
			var text strings.Builder
			for _, finding := range judgeLoad(f, l) {
				text.WriteString(finding.Text + " " + finding.Help + "\n")
				if finding.Level == LevelOK {
					if finding.Help+finding.Command != "" {
						t.Errorf("%s is ok, and says what to do: %s", finding.Check, finding.Help)
					}
					continue
				}
				if finding.Command == "" || !strings.Contains(finding.Help, "\nOtherwise ") {
					t.Errorf("%s does not say what to do and what happens otherwise: %q", finding.Check, finding.Help)
				}
				d.findings = append(d.findings, finding)
			}
			if got := d.found(); !reflect.DeepEqual(got, append([]string{}, tt.want...)) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
			for _, want := range tt.texts {
				if !strings.Contains(text.String(), want) {
					t.Errorf("%q is missing from\n%s", want, text.String())
				}
			}
		})
	}
}

// A kernel that says nothing is not complained about.
func TestJudgeLoadUnknown(t *testing.T) {
	if got := judgeLoad(loadFacts{}, load{connections: 1000, targets: 1}); len(got) > 0 {
		t.Errorf("found %+v", got)
	}
}

func TestLoadFacts(t *testing.T) {
	m := fakeMachine(t, map[string]string{
		"proc/sys/fs/nr_open": "1048576", "proc/sys/fs/file-nr": "700 0 100000",
		"proc/sys/net/ipv4/ip_local_port_range": "32768\t60999", "proc/sys/net/ipv4/ip_local_reserved_ports": "80,33000-33099,60999,61000-61010",
		"proc/sys/net/core/somaxconn": "4096", "proc/sys/net/ipv4/tcp_max_syn_backlog": "2048", "proc/sys/net/ipv4/tcp_syncookies": "1",
		"proc/sys/net/core/netdev_max_backlog": "1000", "proc/sys/net/ipv4/tcp_mem": "1 2 3",
		"proc/net/sockstat":                    "sockets: used 227\nTCP: inuse 207 orphan 0 tw 256 alloc 209 mem 87\nUDP: inuse 0 mem 5\n",
		"proc/sys/net/ipv4/tcp_tw_reuse":       "0",
		"proc/sys/net/ipv4/tcp_max_tw_buckets": "131072", "proc/sys/net/netfilter/nf_conntrack_max": "262144",
		"proc/sys/net/netfilter/nf_conntrack_count": "12",
		"proc/meminfo":     "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n",
		"proc/self/cgroup": "9:name=systemd:/x\n4:cpu,memory:/a/b\n0::/\n",
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "536870912", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1048576",
		"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "1048576",
	})
	got := m.loadFacts()
	if got.files == 0 {
		t.Error("the limit on open files is not known")
	}
	want := loadFacts{
		files: got.files, nrOpen: 1_048_576, openNow: 700, allFiles: 100_000, ports: 28_232 - 101, backlog: 4096, synBacklog: 2048, synCookies: true,
		inputQueue: 1000, tcpLow: 2, tcpHigh: 3, tcpNow: 87, reuseKnown: true, timeWait: 131_072, tracked: 12, trackMost: 262_144, tracking: true,
		memory: 512 << 20, free: 511 << 20, memoryOf: "the control group",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("facts = %+v, want %+v", got, want)
	}
}

// On this machine: addresses of others cannot be bound, and a load generator that was asked about fails for it.
func TestCheckLoad(t *testing.T) {
	find := func(all []Finding, check string) Level {
		for _, f := range all {
			if f.Check == check {
				return f.Level
			}
		}
		return ""
	}
	foreign := []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("192.0.2.1")}
	all := CheckLoad(10, foreign, []string{"tcp://127.0.0.1:7700"})
	if got := find(all, "load: sources"); got != LevelFail || !strings.Contains(fmt.Sprint(all), "bound: 192.0.2.1;") {
		t.Errorf("sources are %q: %+v", got, all)
	}
	if got := CheckLoad(0, nil, nil); got != nil {
		t.Errorf("no connections: %+v", got)
	}
	few := fakeMachine(t, map[string]string{"proc/sys/fs/file-nr": "5 0 10"})
	for _, targets := range [][]string{nil, {"example.org:7700"}} {
		d := doctor{machine: few}
		d.checkLoad(1000, nil, targets)
		want := LevelWarn
		if targets != nil {
			want = LevelFail
		}
		if got := find(d.findings, "load: files of all"); got != want {
			t.Errorf("targets %q: files of all are %q, want %q", targets, got, want)
		}
	}
}

func TestWhereIs(t *testing.T) {
	tests := []struct {
		target         string
		loopback, here bool
	}{
		{"127.0.0.1:7700", true, true},
		{"tcp://127.9.9.9:7700", true, true},
		{"[::1]:7700", true, true},
		{"localhost:1883", true, true},
		{"0.0.0.0:1", true, true},
		{"192.0.2.1:7700", false, false},
		{"mqtt://gateway.example:1883", false, false},
		{"::1", true, true},
	}
	for _, tt := range tests {
		if loopback, here := whereIs(tt.target); loopback != tt.loopback || here != tt.here {
			t.Errorf("whereIs(%q) = %v, %v, want %v, %v", tt.target, loopback, here, tt.loopback, tt.here)
		}
	}
}
