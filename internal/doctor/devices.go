package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/cert"
	"github.com/holter-iot/holter/gateway/guard"
	"github.com/holter-iot/holter/internal/config"
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
	if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o004 != 0 {
		d.warn(check, text+", and everybody on this machine may read it", "If there are secrets in it: chmod o-r "+name)
		return
	}
	d.ok(check, text)
}

func (d *doctor) checkCertificate(l config.Listener, now time.Time) {
	const check = "device TLS"
	loaded, err := cert.Load(*l.TLS)
	if err != nil {
		d.fail(check, fmt.Sprintf("%s: %v", l, err), "")
		return
	}
	leaf := loaded.Certificates[0].Leaf
	text := fmt.Sprintf("%s: the certificate of %s is good until %s", l, leaf.Subject, leaf.NotAfter.UTC().Format(time.DateOnly))
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		d.fail(check, fmt.Sprintf("%s: the certificate of %s was good until %s", l, leaf.Subject, leaf.NotAfter.UTC().Format(time.DateOnly)),
			"Renew it; the server reads the file again when it changes.")
	case left < expiresSoon:
		d.warn(check, text, "Renew it; the server reads the file again when it changes.")
	default:
		d.ok(check, text)
	}
}

func (d *doctor) checkDatagrams() {
	const check = "datagrams"
	most, ok := d.machine.number("proc/sys/net/core/rmem_max")
	switch {
	case !ok:
	case most < datagramBuffer:
		d.warn(check, fmt.Sprintf("%s of datagrams may wait to be read: when all devices send at once, some are lost, and the gateway counts as deaf for them", bytesText(most)),
			fmt.Sprintf("Raise it: sysctl -w net.core.rmem_max=%d, and start the server again.", datagramBuffer))
	default:
		d.ok(check, bytesText(most)+" of datagrams may wait to be read")
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
