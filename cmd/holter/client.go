package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/config"
)

const (
	askTimeout = 10 * time.Second // for one answer; streams have their own
	maxAnswer  = 8 << 20          // bytes; a page of 1,000 events has less than one million
)

// apiFlags are the options of each command that asks the API of a running holter.
type apiFlags struct {
	API      string     `name:"api" env:"HOLTER_API" placeholder:"URL" help:"Where holter serves its API. Default: http://127.0.0.1:8080."`
	APIToken secretFlag `name:"token" env:"HOLTER_API_TOKEN" placeholder:"SECRET" help:"Token for the API, made with \"holter token create\". Other users of this machine see command lines: prefer the environment."`
	CA       string     `name:"ca" env:"HOLTER_API_CA" placeholder:"FILE" help:"PEM file with the certificates to trust an https API by. Default: those that the system trusts."`
}

// client returns a client of the API. Its errors are mistakes of the user.
func (f *apiFlags) client() (*client, error) {
	api := f.API
	if api == "" {
		api = "http://" + config.DefaultHTTP
	}
	u, err := url.Parse(api)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, usageError{fmt.Errorf("--api: %q is not a URL; write http://HOST:PORT", api)}
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, usageError{errors.New("--api: write http://HOST:PORT, without a user, ? or #; a token goes to --token")}
	case strings.ContainsFunc(string(f.APIToken), func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, usageError{errors.New("--token: a token has no blanks, line ends or special characters; was it copied as a whole?")}
	}
	roots, err := f.roots()
	if err != nil {
		return nil, usageError{err}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return &client{
		base: strings.TrimRight(api, "/"), token: string(f.APIToken), timeout: askTimeout,
		http: &http.Client{
			Transport: transport,
			// A redirect is followed by nobody: the API has none, and the token is for the API only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
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

// client asks the API of a running holter. It may be used concurrently.
type client struct {
	base    string // URL without a slash at its end
	token   string // empty: none
	timeout time.Duration
	http    *http.Client
}

// close lets go of idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// get asks for a path, and stores the JSON of the answer in into.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.ask(ctx, http.MethodGet, path, nil, into)
}

// ask sends a request with a body, if it is not nil, as JSON, and stores the JSON of the answer in into, if that is not nil.
func (c *client) ask(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return c.unreachable(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the answer of %s did not end within %v; is the network slow, or the server busy? \"holter doctor\" looks", c.base, c.timeout)
	case err != nil:
		return fmt.Errorf("the answer of %s broke off: %w", c.base, err)
	case answer.StatusCode >= 300:
		return c.refused(request, answer, text)
	case len(text) > maxAnswer:
		return fmt.Errorf("%s: %w: the answer has more than %d MiB", c.base, errStranger, maxAnswer>>20)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.stranger(answer, text)
	}
	return nil
}

func (c *client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	if plain, _, _ := strings.Cut(path, "?"); strings.Contains(plain+"/", "//") {
		return nil, usageError{errors.New("the name is empty")} // it stands in the path, and nothing else does that may be empty
	}
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, usageError{fmt.Errorf("--api: %w", err)}
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// devicePath is the path of a device, whose id may hold anything.
func devicePath(id string) string { return "/v1/devices/" + escapeID(id) }

// escapeID makes an id one segment of a path, also one that would mean a directory.
func escapeID(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
