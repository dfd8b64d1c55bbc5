package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/guard"
)

// protocolsOf returns the protocols of a device port.
func (f *front) protocolsOf(l *config.Listener) ([]codec.Protocol, error) {
	known := map[string]codec.Protocol{
		config.ProtocolJT808: jt808.Protocol{}, config.ProtocolGT06: gt06.Protocol{Lenient: l.Lenient}, config.ProtocolTeltonika: teltonika.Protocol{},
		config.ProtocolFrame: frame.Protocol{}, config.ProtocolLine: line.Protocol{MaxLine: f.config.MaxLine},
		config.ProtocolMQTT: f.mqtt,
	}
	if l.DTU != nil {
		p, err := dtu.New(*l.DTU)
		if err != nil {
			return nil, err
		}
		known[config.ProtocolDTU] = p
	}
	var all []codec.Protocol
	for _, name := range l.Protocols {
		if all = append(all, known[name]); name == config.ProtocolMQTT {
			all = append(all, f.websocket())
		}
	}
	return all, nil
}

// listeners returns the device ports.
func (f *front) listeners() (all []gateway.Listener, err error) {
	for _, l := range f.config.Listen {
		out := gateway.Listener{Address: l.Address, Packets: l.Packets, Proxies: l.Proxies, Identity: l.Identity, MaxMessages: l.Messages, MaxBytes: l.Bytes, MaxDevices: l.MaxDevices}
		if out.Protocols, err = f.protocolsOf(&l); err != nil {
			return nil, l.Mistake(err.Error())
		}
		if l.TLS != nil {
			r, err := f.reloader(*l.TLS)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l, err)
			}
			out.TLS = r.Config()
		}
		all = append(all, out)
	}
	return all, nil
}

// keyFile is the file in the data directory with the key for tokens of devices that register.
const keyFile = "devices.key"

// guard returns the rules for devices that connect.
func (f *front) guard() (gateway.Guard, error) {
	if f.config.DevicesFile == "" && !f.config.Token.IsSet() {
		return gateway.Password(""), nil
	}
	if f.config.DevicesFile == "" {
		f.shared = guard.NewShared(f.config.Token.Reveal())
		return f.shared, nil
	}
	devices, err := guard.New(f.config.DevicesFile, guard.Config{KeyFile: filepath.Join(f.config.Data, keyFile), Logger: f.log})
	if err != nil {
		return nil, fmt.Errorf("devices_file (--devices-file): %w", err)
	}
	f.devices = devices
	f.edges = append(f.edges, devices.Run)
	f.log.Info("only devices that stand in a file may come in", "file", f.config.DevicesFile, "devices", devices.Devices())
	return devices, nil
}

// buildGateway creates the gateway, if there are device ports.
func (f *front) buildGateway(ctx context.Context) (err error) {
	if err := f.buildBroker(); err != nil || len(f.config.Listen) == 0 {
		return err
	}
	cfg := f.config.Gateway
	cfg.ReconnectGrace, cfg.ReconnectGraceMax = f.config.Source.ReconnectGrace, f.config.Source.ReconnectGraceMax
	cfg.Logger = f.log
	if cfg.Guard, err = f.guard(); err != nil {
		return err
	}
	if err := f.admitClients(cfg.Guard); err != nil {
		return err
	}
	if cfg.Listen, err = f.listeners(); err != nil {
		return err
	}
	if f.gateway, err = gateway.New(ctx, f.registry, cfg); err != nil {
		return explainBind(err, f.flagOf(err))
	}
	f.edges = append(f.edges, f.gateway.Run)
	return nil
}

// flagOf returns the flag of the device port that could not be bound.
func (f *front) flagOf(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	of := func(l config.Listener) bool {
		return ok && op.Addr != nil && op.Addr.String() == l.Address && onlyMQTT(l)
	}
	if slices.ContainsFunc(f.config.Listen, of) {
		return "--mqtt"
	}
	return "--listen"
}
