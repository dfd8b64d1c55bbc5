package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/guard"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	// tlsPerConnection is the memory that TLS adds to a connection, in bytes, rounded up from
	// measurements.
	tlsPerConnection = 20 << 10
	// datagramBuffer is the size of the receive buffer that the gateway asks the kernel for, in bytes.
	datagramBuffer = 4 << 20
)

// checkDevices checks the device ports, their certificates, and the file of devices.
func (d *doctor) checkDevices(c config.Config) {
	var lines []string
	for _, l := range c.Listen {
		lines = append(lines, l.String())
	}
	if len(lines) > 0 {
		d.ok("device ports", strings.Join(lines, "\n"))
	}
	d.checkDevicesFile(c.DevicesFile)
	datagrams := false
	seen := map[cert.Files]bool{}
	for _, l := range c.Listen {
		datagrams = datagrams || l.Packets
		if l.TLS != nil && !seen[*l.TLS] {
			seen[*l.TLS] = true
			d.checkCertificate(l, time.Now())
		}
	}
	if datagrams {
		d.checkDatagrams()
	}
}

func (d *doctor) checkDevicesFile(name string) {
	const check = "devices file"
	if name == "" {
		return
	}
	devices, err := guard.New(name, guard.Config{})
	if err != nil {
		d.fail(check, err.Error(), "Fix it: the server does not start, or goes on with what stood there before.")
		return
	}
	text := fmt.Sprintf("%s holds %s", name, terminal.Plural(devices.Devices(), "device", "devices"))
	info, err := os.Stat(name)
	d.judge(check, text, problem{
		err == nil && info.Mode().Perm()&0o004 != 0, LevelWarn, text + ", and everybody on this machine may read it",
		"If there are secrets in it: chmod o-r " + name,
	})
}

func (d *doctor) checkCertificate(l config.Listener, now time.Time) {
	const check = "device TLS"
	loaded, err := cert.Load(*l.TLS)
	if err != nil {
		d.fail(check, fmt.Sprintf("%s: %v", l, err), "")
		return
	}
	leaf := loaded.Certificates[0].Leaf
	text := func(is string) string {
		return fmt.Sprintf("%s: the certificate of %s %s good until %s", l, leaf.Subject, is, leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	help := "Renew it; the server reads the file again when it changes."
	left := leaf.NotAfter.Sub(now)
	d.judge(check, text("is"),
		problem{left <= 0, LevelFail, text("was"), help},
		problem{left < expiresSoon, LevelWarn, text("is"), help})
}

func (d *doctor) checkDatagrams() {
	most, ok := d.machine.Number("proc/sys/net/core/rmem_max")
	text := bytesText(most) + " of datagrams may wait to be read"
	if ok {
		d.judge("datagrams", text, problem{
			most < datagramBuffer, LevelWarn, text + ": when all devices send at once, some are lost, and the gateway counts as deaf for them",
			fmt.Sprintf("Raise it: sysctl -w net.core.rmem_max=%d, and start the server again.", datagramBuffer),
		})
	}
}

// perConnection returns the memory of an idle connection in bytes, at the device port where it is
// largest.
func perConnection(all []config.Listener) uint64 {
	if slices.ContainsFunc(all, func(l config.Listener) bool { return l.TLS != nil }) {
		return kernelPerConnection + programPerConnection + tlsPerConnection
	}
	return kernelPerConnection + programPerConnection
}
