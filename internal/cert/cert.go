package cert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Files are the names of PEM files.
type Files struct {
	// Cert holds the server's certificate, followed by those between it and the authority.
	// Required.
	Cert string
	// Key holds its private key, without a password. Required; it may be the same file.
	Key string
	// Clients holds the certificates of the authorities that sign the clients'. "": clients are not
	// asked for certificates.
	Clients string
	// Revoked holds lists of revoked certificates (CRL, RFC 5280), each signed by an authority of
	// Clients. A list counts also when it is out of date. "": none is revoked.
	Revoked string
	// MinVersion is the least version of TLS: 1.2 or 1.3. Default: "", which is 1.2.
	MinVersion string
	// Ciphers are the cipher suites of TLS 1.2 that are served: some of the names that [Ciphers] returns,
	// separated by commas. Default: "", which is all of those. What TLS 1.3 has is always served.
	Ciphers string
	// Optional admits clients that show no certificate. One that is shown must be good.
	Optional bool
}

// Load reads the files and returns what to serve with: TLS 1.2 or later. Errors name the file and
// say what to do.
func Load(f Files) (*tls.Config, error) {
	pair, err := Pair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	least, err := f.version()
	if err != nil {
		return nil, err
	}
	suites, err := f.suites()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: least, CipherSuites: suites}
	if f.Clients == "" {
		if f.Revoked != "" {
			return nil, errors.New("certificates: a list of revoked ones is of no use without the authorities of clients")
		}
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if f.Optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	authorities, err := loadAuthorities(f.Clients)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	for _, a := range authorities {
		c.ClientCAs.AddCert(a)
	}
	if f.Revoked != "" {
		list, err := loadRevoked(f.Revoked, authorities)
		if err != nil {
			return nil, fmt.Errorf("certificates: %w", err)
		}
		c.VerifyConnection = list.verify
	}
	return c, nil
}

// version returns the least version of TLS.
func (f Files) version() (uint16, error) {
	switch f.MinVersion {
	case "", "1.2":
		return tls.VersionTLS12, nil
	case "1.3":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("certificates: the least version of TLS is %q, want 1.2 or 1.3", f.MinVersion)
}

// Ciphers returns the names of the cipher suites of TLS 1.2 that can be served: those with
// authenticated encryption (RFC 5116).
func Ciphers() (names []string) {
	for _, s := range tls.CipherSuites() {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) && !strings.Contains(s.Name, "_CBC_") {
			names = append(names, s.Name)
		}
	}
	return names
}

// suites returns the ids of the cipher suites that are served.
func (f Files) suites() (ids []uint16, err error) {
	wanted := Ciphers()
	if f.Ciphers != "" {
		wanted = strings.Split(f.Ciphers, ",")
	}
	for _, name := range wanted {
		if !slices.Contains(Ciphers(), name) {
			return nil, fmt.Errorf("certificates: the cipher suite %q is not served, want of %q", name, Ciphers())
		}
		for _, s := range tls.CipherSuites() {
			if s.Name == name {
				ids = append(ids, s.ID)
			}
		}
	}
	return ids, nil
}

// Pair reads a certificate and its key. Errors name the file and say what to do.
func Pair(certFile, keyFile string) (tls.Certificate, error) {
	certs, err := read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if !holds(certs, "CERTIFICATE") {
		return tls.Certificate{}, fmt.Errorf("%s: there is no certificate in it; it must be PEM, with a block BEGIN CERTIFICATE", certFile)
	}
	key, err := read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certs, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s with the key %s: %w; both must be PEM and belong together, and the key have no password", certFile, keyFile, err)
	}
	return pair, nil
}

func loadAuthorities(file string) (all []*x509.Certificate, err error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			if n == 1 {
				return nil, fmt.Errorf("%s: there is no certificate of an authority in it; it must be PEM, with a block BEGIN CERTIFICATE", file)
			}
			return all, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: block %d, %s, is no certificate: %w; write it anew, or take it out", file, n, block.Type, err)
		}
		all = append(all, c)
	}
}

func holds(data []byte, kind string) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			return true
		}
	}
	return false
}

// mostBytes is how long a file may be, far beyond any real one.
const mostBytes = 16 << 20

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w; the file must be there and readable for this user", err)
	}
	defer func() { _ = f.Close() }()
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(f, mostBytes+1))
	switch {
	case err != nil:
		return nil, err
	case n > mostBytes:
		return nil, errors.New(file + ": longer than 16 MiB; name a file of certificates")
	}
	return b.Bytes(), nil
}
