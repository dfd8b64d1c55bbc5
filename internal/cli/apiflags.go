package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/credential"
	"github.com/holter-iot/holter/internal/httpapi"
)

// apiFlags are the options of every command that asks the API of a running holter.
type apiFlags struct {
	API      string     `name:"api" env:"HOLTER_API" placeholder:"URL" help:"Where holter serves its API. Default: http://127.0.0.1:8080."`
	APIToken secretFlag `name:"token" env:"HOLTER_API_TOKEN" placeholder:"SECRET" help:"Token for the API, made with \"holter tokens create\". Other users of this machine see command lines: prefer the environment."`
	CA       string     `name:"ca" env:"HOLTER_API_CA" placeholder:"FILE" help:"PEM file with the certificates to trust an https API by. Default: those that the system trusts."`
}

// ProvideClient returns a client of the API. Its errors are mistakes of the user.
func (f *apiFlags) ProvideClient() (*apiclient.Client, error) {
	api := f.API
	if api == "" {
		api = "http://" + httpapi.DefaultAddress
	}
	u, err := url.Parse(api)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, usageError{fmt.Errorf("--api: %q is not a URL; write http://HOST:PORT", api)}
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, usageError{errors.New("--api: write http://HOST:PORT, without a user, ? or #; a token goes to --token")}
	}
	token, err := credential.Read(string(f.APIToken))
	switch {
	case err != nil:
		return nil, usageError{fmt.Errorf("--token: %w", err)}
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, usageError{errors.New("--token: a token has no blanks, line ends or special characters; was it copied as a whole?")}
	}
	roots, err := f.roots()
	if err != nil {
		return nil, usageError{err}
	}
	return apiclient.New(api, token, roots), nil
}

// roots returns the certificates of --ca; nil stands for those of the system.
func (f *apiFlags) roots() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca: %s holds no certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----", f.CA)
	}
	return pool, nil
}
