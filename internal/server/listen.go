package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

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

// DeviceProtocols returns the protocols of each device port. Its error joins the mistakes, each with
// its place in the configuration.
func DeviceProtocols(c *config.Config) (all [][]codec.Protocol, err error) {
	var errs []error
	for i := range c.Listen {
		protocols, err := protocolsOf(&c.Listen[i], c.MaxLine)
		all, errs = append(all, protocols), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// protocolsOf returns the protocols of a device port.
func protocolsOf(l *config.Listener, maxLine int) (all []codec.Protocol, err error) {
	for _, name := range l.Protocols {
		switch name {
		case config.ProtocolJT808:
			all = append(all, jt808.Protocol{})
		case config.ProtocolGT06:
			all = append(all, gt06.Protocol{})
		case config.ProtocolTeltonika:
			all = append(all, teltonika.Protocol{})
		case config.ProtocolFrame:
			all = append(all, frame.Protocol{})
		case config.ProtocolLine:
			all = append(all, line.Protocol{MaxLine: maxLine})
		case config.ProtocolDTU:
			p, err := dtuOf(l.DTU)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		default:
			return nil, l.Mistake("this program does not know the protocol " + name)
		}
	}
	return all, nil
}

// dtuOf returns the protocol of DTUs. Its errors name the places of the settings.
func dtuOf(d *config.DTU) (*dtu.Protocol, error) {
	p, err := dtu.New(d.Options)
	if err == nil {
		return p, nil
	}
	var errs []error
	for text := range strings.SplitSeq(err.Error(), "\n") {
		field, rest, _ := strings.Cut(strings.TrimPrefix(text, "dtu: "), " ")
		errs = append(errs, d.Mistake(strings.ToLower(strings.TrimSuffix(field, ":")), rest))
	}
	return nil, errors.Join(errs...)
}

// listeners returns the device ports.
func (s *server) listeners(protocols [][]codec.Protocol) (all []gateway.Listener, err error) {
	for i, l := range s.config.Listen {
		out := gateway.Listener{Address: l.Address, Protocols: protocols[i], Packets: l.Packets, Proxies: l.Proxies}
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
func (s *server) buildGateway(ctx context.Context, protocols [][]codec.Protocol) (err error) {
	if len(s.config.Listen) == 0 {
		return nil
	}
	cfg := s.config.Gateway
	cfg.MaxGap, cfg.ReconnectGrace, cfg.ReconnectGraceMax = s.config.Source.MaxGap, s.config.Source.ReconnectGrace, s.config.Source.ReconnectGraceMax
	cfg.Logger = s.log
	if cfg.Guard, err = s.guard(); err != nil {
		return err
	}
	if cfg.Listen, err = s.listeners(protocols); err != nil {
		return err
	}
	if s.gateway, err = gateway.New(ctx, s.registry, cfg); err != nil {
		return explainBind(err, "--listen")
	}
	s.edges = append(s.edges, s.gateway.Run)
	return nil
}
