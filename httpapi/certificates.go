package httpapi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkCertificates is how often the files of a certificate are looked at, at most.
const checkCertificates = time.Second

// Certificates is a certificate and its key in files, which are read again when they change. Make one with [NewCertificates]; it may be
// used concurrently.
type Certificates struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex // guards the fields below
	current *tls.Certificate
	read    [2]os.FileInfo // of the files that were read last
	checked time.Time
	wrong   string // what is wrong with them; it is logged once
}

// same reports whether nothing tells files from those of another time. Some systems give all files one time of change, so it must be the same
// ones, too.
func same(now, before [2]os.FileInfo) bool {
	for i := range now {
		if !os.SameFile(now[i], before[i]) || !now[i].ModTime().Equal(before[i].ModTime()) || now[i].Size() != before[i].Size() {
			return false
		}
	}
	return true
}

// NewCertificates reads a certificate, with those of its issuers after it, and its key, both in PEM. It fails if they cannot be read or do
// not belong together. What is wrong with them later is logged, and the old ones stay in use. logger may be nil.
func NewCertificates(certFile, keyFile string, logger *slog.Logger) (*Certificates, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Certificates{certFile: certFile, keyFile: keyFile, log: logger, checked: time.Now()}
	var err error
	if c.read, err = c.states(); err != nil {
		return nil, fmt.Errorf("httpapi: certificate: %w", err)
	}
	if c.current, err = c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// TLS returns a configuration that serves the certificate.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{GetCertificate: c.GetCertificate, MinVersion: tls.VersionTLS12}
}

// GetCertificate is for a [tls.Config]. Once a second at most it looks whether the files have changed. It never fails.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= checkCertificates {
		c.checked = now
		c.refreshLocked()
	}
	return c.current, nil
}

// refreshLocked reads the files if they have changed, or were wrong.
func (c *Certificates) refreshLocked() {
	states, err := c.states()
	if err == nil && same(states, c.read) && c.wrong == "" {
		return
	}
	var fresh *tls.Certificate
	if err == nil {
		c.read = states
		fresh, err = c.load()
	}
	if err != nil {
		if c.wrong != err.Error() {
			c.wrong = err.Error()
			c.log.Error("new certificate cannot be used, the old one stays", "error", err)
		}
		return
	}
	c.current, c.wrong = fresh, ""
	c.log.Info("certificate read again", "file", c.certFile)
}

func (c *Certificates) states() (states [2]os.FileInfo, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, failed := os.Stat(name)
		states[i], err = info, errors.Join(err, failed)
	}
	return states, err
}

func (c *Certificates) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("httpapi: certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	return &pair, nil
}
