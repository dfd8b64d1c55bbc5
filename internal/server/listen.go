package server

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/gateway/guard"
	"github.com/holter-iot/holter/internal/config"
)

// protocolsOf returns the protocols of a device port.
func protocolsOf(l *config.Listener, maxLine int) ([]codec.Protocol, error) {
	known := map[string]codec.Protocol{
		config.ProtocolJT808: jt808.Protocol{}, config.ProtocolGT06: gt06.Protocol{Lenient: l.Lenient}, config.ProtocolTeltonika: teltonika.Protocol{},
		config.ProtocolFrame: frame.Protocol{}, config.ProtocolLine: line.Protocol{MaxLine: maxLine},
	}
	if l.DTU != nil {
		p, err := dtu.New(*l.DTU)
		if err != nil {
			return nil, err
		}
		known[config.ProtocolDTU] = p
	}
	all := make([]codec.Protocol, len(l.Protocols))
	for i, name := range l.Protocols {
		all[i] = known[name]
	}
	return all, nil
}

// listeners returns the device ports.
func (s *server) listeners() (all []gateway.Listener, err error) {
	for _, l := range s.config.Listen {
		out := gateway.Listener{Address: l.Address, Packets: l.Packets, Proxies: l.Proxies, Identity: l.Identity, MaxMessages: l.Messages, MaxBytes: l.Bytes}
		if out.Protocols, err = protocolsOf(&l, s.config.MaxLine); err != nil {
			return nil, l.Mistake(err.Error())
		}
		if l.TLS != nil {
			r, err := s.reloader(*l.TLS)
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
func (s *server) guard() (gateway.Guard, error) {
	if s.config.DevicesFile == "" {
		return gateway.Password(s.config.Token.Reveal()), nil
	}
	devices, err := guard.New(s.config.DevicesFile, guard.Config{KeyFile: filepath.Join(s.config.Data, keyFile), Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("devices_file (--devices-file): %w", err)
	}
	s.edges = append(s.edges, devices.Run)
	s.log.Info("only devices that stand in a file may come in", "file", s.config.DevicesFile, "devices", devices.Devices())
	return devices, nil
}

// buildGateway creates the gateway, if there are device ports.
func (s *server) buildGateway(ctx context.Context) (err error) {
	if len(s.config.Listen) == 0 {
		return nil
	}
	cfg := s.config.Gateway
	cfg.MaxGap, cfg.ReconnectGrace, cfg.ReconnectGraceMax = s.config.Source.MaxGap, s.config.Source.ReconnectGrace, s.config.Source.ReconnectGraceMax
	cfg.Logger = s.log
	if cfg.Guard, err = s.guard(); err != nil {
		return err
	}
	if cfg.Listen, err = s.listeners(); err != nil {
		return err
	}
	if s.gateway, err = gateway.New(ctx, s.registry, cfg); err != nil {
		return explainBind(err, "--listen")
	}
	s.edges = append(s.edges, s.gateway.Run)
	return nil
}
