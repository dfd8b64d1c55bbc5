package cert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// ErrRevoked is why a connection is refused whose client shows a certificate that was revoked.
var ErrRevoked = errors.New("certificates: the client's certificate was revoked")

// revoked is the certificates that were revoked, by issuer and serial number.
type revoked map[[2]string]struct{}

// loadRevoked reads lists of revoked certificates: PEM blocks X509 CRL, or one list in DER.
func loadRevoked(file string, authorities []*x509.Certificate) (revoked, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	all := make(revoked)
	block, rest := pem.Decode(data)
	if block == nil {
		return all, all.add(file, data, authorities)
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if err := all.add(file, block.Bytes, authorities); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add adds a list in DER, which one of the authorities must have signed.
func (r revoked) add(file string, der []byte, authorities []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("%s: there is no list of revoked certificates in it: %w; it must be PEM, with blocks BEGIN X509 CRL, or DER", file, err)
	}
	signed := func(a *x509.Certificate) bool { return list.CheckSignatureFrom(a) == nil }
	if !slices.ContainsFunc(authorities, signed) {
		return fmt.Errorf("%s: the list of %s is signed by none of the authorities of clients", file, list.Issuer)
	}
	for _, entry := range list.RevokedCertificateEntries {
		r[[2]string{string(list.RawIssuer), entry.SerialNumber.String()}] = struct{}{}
	}
	return nil
}

// verify is for [tls.Config.VerifyConnection], which is asked of sessions that are resumed, too.
func (r revoked) verify(state tls.ConnectionState) error {
	for _, chain := range state.VerifiedChains {
		for _, c := range chain {
			if _, is := r[[2]string{string(c.RawIssuer), c.SerialNumber.String()}]; is {
				return fmt.Errorf("%w: %s, number %s", ErrRevoked, c.Subject, c.SerialNumber)
			}
		}
	}
	return nil
}
