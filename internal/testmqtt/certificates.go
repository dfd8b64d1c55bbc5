package testmqtt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files are the names of PEM files: a certificate authority, and a client's certificate and key.
type Files struct{ CA, Cert, Key string }

// certificates writes a CA, a server's certificate for localhost and 127.0.0.1, and a client's.
func certificates(dir string) (client, server Files, err error) {
	ca := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "ca.pem")}
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := issue(ca, authority, authority, nil)
	if err != nil {
		return client, server, err
	}
	leaf := func(serial int64, name string, usage x509.ExtKeyUsage) (Files, error) {
		files := Files{CA: ca.CA, Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key")}
		_, err := issue(files, &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}, authority, key)
		return files, err
	}
	if server, err = leaf(2, "server", x509.ExtKeyUsageServerAuth); err != nil {
		return client, server, err
	}
	client, err = leaf(3, "client", x509.ExtKeyUsageClientAuth)
	return client, server, err
}

// issue makes a key, signs a certificate for it with the authority's (with its own if there is none), and writes both.
func issue(to Files, template, authority *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(to.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	if to.Key == "" {
		return key, nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(to.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}
