package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holter-iot/holter/gateway"
	mqttcodec "github.com/holter-iot/holter/gateway/codec/mqtt"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/guard"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
)

// front is what devices connect to, in holter serve and holter ear alike.
type front struct {
	config    config.Config                  // with what the parts were made
	live      *atomic.Pointer[config.Config] // what is in force now
	logs      *logs
	log       *slog.Logger
	stdout    io.Writer
	registry  *liveness.Registry
	gateway   *gateway.Gateway    // nil for holter monitor
	broker    *mqtt.Broker        // nil if no device port speaks MQTT
	mqtt      *mqttcodec.Protocol // the same, at the device ports
	who       *access.Access      // who may be its client; nil without it
	shared    *guard.Shared       // the token of all devices; nil if there is none
	devices   *guard.File         // nil without a file of devices
	routes    routes              // what passes its messages on to other servers; nil if nothing does
	records   mqtt.Store          // of the broker; nil if it keeps nothing
	edges     []func(ctx context.Context) error
	reloaders map[cert.Files]*cert.Reloader
}

// certificates returns the TLS configuration of a server; nil if it has no certificate. setting names
// the setting of the files, for errors.
func (f *front) certificates(files cert.Files, setting string) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	r, err := f.reloader(files)
	if err != nil {
		return nil, BadConfig(fmt.Errorf("%s: %w", setting, err))
	}
	return &tls.Config{GetCertificate: r.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// reloader returns what reloads certificates when their files change. Servers with the same files share
// one.
func (f *front) reloader(files cert.Files) (r *cert.Reloader, err error) {
	if r = f.reloaders[files]; r != nil {
		return r, nil
	}
	if r, err = cert.New(files, f.log); err == nil {
		f.reloaders[files] = r
	}
	return r, err
}

// release lets go of the addresses that build has bound, if the parts are not to run: each of them ends at
// once, since ctx is done. Some report that they were not loaded.
func (f *front) release(ctx context.Context) {
	var edges sync.WaitGroup
	for _, run := range f.edges {
		edges.Go(func() { _ = run(ctx) })
	}
	edges.Wait()
}

// devicePorts returns the device ports as PROTOCOL[+PROTOCOL…]://HOST:PORT, and those that speak MQTT
// alone.
func (f *front) devicePorts() (others, mqtt []string) {
	if f.gateway == nil {
		return nil, nil
	}
	for i, a := range f.gateway.Addrs() {
		l := f.config.Listen[i]
		l.Address = a.String()
		if onlyMQTT(l) {
			mqtt = append(mqtt, l.String())
		} else {
			others = append(others, l.String())
		}
	}
	return others, mqtt
}

// appendPorts appends the device ports to the attributes of a log line.
func (f *front) appendPorts(what []any) []any {
	others, mqtt := f.devicePorts()
	if len(others) > 0 {
		what = append(what, "devices", strings.Join(others, ", "))
	}
	if len(mqtt) > 0 {
		what = append(what, "mqtt", strings.Join(mqtt, ", "))
	}
	return what
}

// portLines shows the device ports to a person, each on a line.
func (f *front) portLines(line func(label, value string)) {
	others, mqtt := f.devicePorts()
	for i, port := range others {
		line([]string{"devices", ""}[min(i, 1)], port)
	}
	for i, port := range mqtt {
		line([]string{"MQTT", ""}[min(i, 1)], port)
	}
}
