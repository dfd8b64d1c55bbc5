package gateway

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
)

// Identity says what on a client's certificate is its device's id.
type Identity string

// The identities.
const (
	// AnyName is the common name; if there is none, the first DNS name; if there is none, the first
	// URI.
	AnyName Identity = ""
	// CommonName is the common name. There must be one only.
	CommonName Identity = "cn"
	// DNSName and URI are the first subject alternative names of their kinds.
	DNSName Identity = "san_dns"
	URI     Identity = "san_uri"
	// Fingerprint is the SHA-256 of the certificate, as 64 lower-case hexadecimal digits.
	Fingerprint Identity = "fingerprint"
)

// Identities returns all identities.
func Identities() []Identity { return []Identity{AnyName, CommonName, DNSName, URI, Fingerprint} }

// of returns the device's id; an error says why the certificate has none.
func (i Identity) of(c *x509.Certificate) (string, error) {
	switch i {
	case CommonName:
		return commonName(c)
	case DNSName:
		return first("DNS name", c.DNSNames)
	case URI:
		return first("URI", texts(c.URIs))
	case Fingerprint:
		sum := sha256.Sum256(c.Raw)
		return hex.EncodeToString(sum[:]), nil
	default:
		switch {
		case len(commonNames(c)) > 0:
			return commonName(c)
		case len(c.DNSNames) > 0:
			return c.DNSNames[0], nil
		case len(c.URIs) > 0:
			return c.URIs[0].String(), nil
		}
		return "", errors.New("it has no common name, no DNS name and no URI")
	}
}

// commonName returns the one common name. Of several each reader of a certificate takes another.
func commonName(c *x509.Certificate) (string, error) {
	names := commonNames(c)
	if len(names) > 1 {
		return "", fmt.Errorf("it has %d common names, and must have one", len(names))
	}
	return first("common name", names)
}

func first(what string, names []string) (string, error) {
	if len(names) == 0 || names[0] == "" {
		return "", fmt.Errorf("it has no %s", what)
	}
	return names[0], nil
}

// commonNames returns all common names: of several, pkix.Name.CommonName has the last.
func commonNames(c *x509.Certificate) (names []string) {
	for _, n := range c.Subject.Names {
		if text, ok := n.Value.(string); ok && n.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) {
			names = append(names, text)
		}
	}
	return names
}

func texts(urls []*url.URL) (all []string) {
	for _, u := range urls {
		all = append(all, u.String())
	}
	return all
}
