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
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if f.Clients == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if f.Optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if c.ClientCAs, err = loadAuthorities(f.Clients); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return c, nil
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

func loadAuthorities(file string) (*x509.CertPool, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for n := 1; ; n++ {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			if n == 1 {
				return nil, fmt.Errorf("%s: there is no certificate of an authority in it; it must be PEM, with a block BEGIN CERTIFICATE", file)
			}
			return pool, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: block %d, %s, is no certificate: %w; write it anew, or take it out", file, n, block.Type, err)
		}
		pool.AddCert(c)
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
