package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/config"
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

func bridgeConfig(c *config.Config, b *config.Bridge) (mqttbridge.Config, error) {
	conventions, err := conventionsOf(b)
	files, filesErr := bridgeTLS(b.TLS)
	if filesErr != nil {
		filesErr = b.Mistake("tls: " + filesErr.Error())
	}
	out := mqttbridge.Config{
		Name: b.Name, URL: b.URL, ClientID: b.ClientID, Username: b.Username, Password: passwordOf(b), TLS: files, Conventions: conventions,
		Share: b.Share, QoS: b.QoS, Watermark: b.Watermark, Queue: b.Queue, MaxPayload: b.MaxPayload, ReconnectMax: b.ReconnectMax,
		MaxGap: c.Source.MaxGap, ReconnectGrace: c.Source.ReconnectGrace, ReconnectGraceMax: c.Source.ReconnectGraceMax, Ignore: ownTopics(c),
	}
	return out, errors.Join(err, filesErr)
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
	case b.Password.IsSet():
		return func() (string, error) { return b.Password.Reveal(), nil }
	}
	return nil
}

// bridgeTLS returns the TLS configuration of a bridge; nil if it has no files. The certificate is read
// again for each connection.
func bridgeTLS(files config.BridgeTLS) (*tls.Config, error) {
	if files == (config.BridgeTLS{}) {
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
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			if err != nil {
				return nil, fmt.Errorf("certificate %s with key %s: %w", files.Cert, files.Key, err)
			}
			return &pair, nil
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
func conventionsOf(b *config.Bridge) ([]convention.Convention, error) {
	var all []convention.Convention
	var errs []error
	for i := range b.Presets {
		name := b.Presets[i].Name
		if !slices.Contains(presets.Names(), name) {
			errs = append(errs, b.Presets[i].Unknown(presets.Names()))
			continue
		}
		made, err := presets.New(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("preset %s: %w", name, err))
			continue
		}
		all = append(all, made)
	}
	if len(b.Rules) > 0 {
		made, err := convention.New(specOf(b.Rules))
		if err != nil {
			return nil, errors.Join(append(errs, ruleMistakes(b, err)...)...)
		}
		all = append(all, made)
	}
	return all, errors.Join(errs...)
}

// specOf returns rules in the form of package convention.
func specOf(rules []config.Rule) convention.Spec {
	spec := convention.Spec{Name: rulesName}
	for i := range rules {
		spec.Rules = append(spec.Rules, rules[i].Rule)
	}
	return spec
}

// ruleMistakes returns the mistakes in rules, each with its place in the file.
func ruleMistakes(b *config.Bridge, err error) []error {
	list := joined(err)
	for i, err := range list {
		if e, ok := errors.AsType[*convention.FieldError](err); ok && e.Rule >= 0 && e.Rule < len(b.Rules) {
			list[i] = b.Rules[e.Rule].Mistake(e.Field, e.Case, e.Err.Error())
		} else {
			list[i] = b.Mistake(err.Error())
		}
	}
	return list
}
