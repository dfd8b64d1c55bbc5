package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// bridgeConfigs returns the configurations of the bridges. Its error joins the mistakes, each with its
// place in the file.
func bridgeConfigs(c *config.Config, log *slog.Logger) ([]mqttbridge.Config, error) {
	var all []mqttbridge.Config
	var errs []error
	for i := range c.Bridges {
		b := &c.Bridges[i]
		out, err := bridgeConfig(c, b)
		out.Logger = log
		all, errs = append(all, out), append(errs, err)
	}
	return all, errors.Join(errs...)
}

func bridgeConfig(c *config.Config, b *config.Bridge) (out mqttbridge.Config, err error) {
	out = b.Config
	out.Password, out.Ignore = passwordOf(b), ownTopics(c)
	out.ReconnectGrace, out.ReconnectGraceMax = c.Source.ReconnectGrace, c.Source.ReconnectGraceMax
	if out.TLS, err = bridgeTLS(b.Files); err != nil {
		return out, b.Mistake("tls: " + err.Error())
	}
	out.Conventions, err = conventionsOf(b)
	if prefix, ok := discoveryPrefix(c); ok {
		out.Conventions = append(out.Conventions, homeassistant.NewJoin(prefix, out.Conventions))
	}
	return out, err
}

// passwordOf returns the function that returns the password of a bridge; nil if it has none.
func passwordOf(b *config.Bridge) func() (string, error) {
	switch {
	case b.PasswordFile != "":
		return func() (string, error) {
			text, err := os.ReadFile(b.PasswordFile)
			line, _, _ := strings.Cut(string(text), "\n")
			return strings.TrimSuffix(line, "\r"), err
		}
	case b.Secret.IsSet():
		return func() (string, error) { return b.Secret.Reveal(), nil }
	}
	return nil
}

// bridgeTLS returns the TLS configuration of a bridge; nil if it has no files. The certificate is read
// again for each connection.
func bridgeTLS(files config.TLSFiles) (*tls.Config, error) {
	if files == (config.TLSFiles{}) {
		return nil, nil
	}
	out := &tls.Config{ServerName: files.ServerName, MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		text, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, err
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", files.CA)
		}
	}
	if files.Cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := cert.Pair(files.Cert, files.Key)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return out, nil
}

// rulesName is the name of the convention of a bridge's own rules.
const rulesName = "rules"

// conventionsOf returns the conventions of a bridge: its presets and its own rules.
func conventionsOf(b *config.Bridge) (all []convention.Convention, err error) {
	for _, name := range b.Presets {
		made, err := presets.New(name)
		if err != nil {
			return nil, b.Mistake(err.Error())
		}
		all = append(all, made)
	}
	if len(b.Rules) == 0 {
		return all, nil
	}
	made, err := convention.New(convention.Spec{Name: rulesName, Rules: b.Rules})
	if err != nil {
		return nil, b.Mistake(err.Error())
	}
	return append(all, made), nil
}
