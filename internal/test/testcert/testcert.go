// Package testcert makes certificates for tests.
package testcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Ask says what certificate is wanted.
type Ask struct {
	Name     string   // the common name
	Names    []string // further common names
	DNS, URI []string // what else it is called
	RSA      bool     // an RSA key of 2048 bits, not ECDSA P-256
	Expired  bool
}

// New makes an authority.
func New(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "Test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	a.Cert = sign(tb, template, template, &a.key.PublicKey, a.key)
	return a
}

// Issue makes a certificate, for 127.0.0.1 and localhost as well, that servers and clients may use.
func (a *Authority) Issue(tb testing.TB, ask Ask) tls.Certificate {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: ask.Name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: ask.DNS, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, name := range ask.Names {
		if len(template.Subject.ExtraNames) == 0 { // these take the place of CommonName
			template.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: ask.Name}}
		}
		template.Subject.ExtraNames = append(template.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: name})
	}
	if ask.Expired {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	for _, text := range ask.URI {
		u, err := url.Parse(text)
		if err != nil {
			tb.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	var key crypto.Signer = newKey(tb)
	if ask.RSA {
		var err error
		if key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			tb.Fatal(err)
		}
	}
	leaf := sign(tb, template, a.Cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// Revoke returns a list of revoked certificates, in DER.
func (a *Authority) Revoke(tb testing.TB, certificates ...tls.Certificate) []byte {
	tb.Helper()
	list := &x509.RevocationList{Number: serial(tb), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range certificates {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.Cert, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

// Pool returns the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return block("CERTIFICATE", a.Cert.Raw) }

// PEM returns a certificate and its key.
func PEM(tb testing.TB, c tls.Certificate) (cert, key []byte) {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		tb.Fatal(err)
	}
	return block("CERTIFICATE", c.Certificate[0]), block("PRIVATE KEY", der)
}

// Write writes a file for the length of the test and returns its name.
func Write(tb testing.TB, dir, name string, data ...[]byte) string {
	tb.Helper()
	var all []byte
	for _, d := range data {
		all = append(all, d...)
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, all, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func sign(tb testing.TB, template, authority *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key, signer)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}
