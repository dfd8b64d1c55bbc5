package doctor

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/cert"
	"github.com/holter-iot/holter/gateway/guard"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	// secretPerConnection is what TLS adds to a connection, in bytes, rounded up from what was measured.
	secretPerConnection = 20 << 10
	// datagramBuffer is what the gateway asks the kernel for, in bytes, to keep datagrams in.
	datagramBuffer = 4 << 20
)

// checkDevices checks the device ports, and who may come in there.
func (d *doctor) checkDevices(c config.Config) {
	if protocols, err := server.DeviceProtocols(&c); err != nil {
		d.fail("device ports", err.Error(), "Mend it: the server does not start.")
	} else if len(protocols) > 0 {
		d.ok("device ports", portsText(c.Listen))
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

// portsText says what is spoken where.
func portsText(all []config.Listener) string {
	var lines []string
	for _, l := range all {
		lines = append(lines, l.String())
	}
	return strings.Join(lines, "\n")
}

func (d *doctor) checkDevicesFile(name string) {
	const check = "devices file"
	if name == "" {
		return
	}
	devices, err := guard.New(name, guard.Config{})
	if err != nil {
		d.fail(check, err.Error(), "Mend it: the server does not start, or goes on with what stood there before.")
		return
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o004 != 0 {
		d.warn(check, fmt.Sprintf("%s holds %s, and everybody on this machine may read it", name, terminal.Plural(devices.Devices(), "device", "devices")),
			"If there are secrets in it: chmod o-r "+name)
		return
	}
	d.ok(check, fmt.Sprintf("%s holds %s", name, terminal.Plural(devices.Devices(), "device", "devices")))
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

// perConnection is how much memory an idle connection may take, at the dearest of the device ports.
func perConnection(all []config.Listener) uint64 {
	for _, l := range all {
		if l.TLS != nil {
			return kernelPerConnection + programPerConnection + secretPerConnection
		}
	}
	return kernelPerConnection + programPerConnection
}
