// Package apiclient asks the API of a running holter, and explains what went wrong.
package apiclient

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
	"strings"
	"time"
)

const (
	askTimeout = 10 * time.Second // for one answer; streams have limits of their own
	MaxAnswer  = 8 << 20          // bytes; a page of 1,000 events has less than one million
)

// Client asks the API of a running holter. It may be used concurrently.
type Client struct {
	Base    string        // URL without a slash at its end
	Timeout time.Duration // for one answer

	token string // empty: none
	http  *http.Client
}

// New returns a client of the API at a URL. An empty token sends none; roots are the certificates to trust, nil those of the system.
func New(base, token string, roots *x509.CertPool) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return &Client{
		Base: strings.TrimRight(base, "/"), token: token, Timeout: askTimeout,
		http: &http.Client{
			Transport: transport,
			// Redirects are not followed: the API has none, and the token is for the API only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends a request made by Request.
func (c *Client) Do(request *http.Request) (*http.Response, error) { return c.http.Do(request) }

// Get requests a path, and stores the JSON of the answer in into.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.Ask(ctx, http.MethodGet, path, nil, into)
}

// Ask sends a request with a body as JSON, and stores the JSON of the answer in into, which may
// be an *Answer. Body and into may be nil.
func (c *Client) Ask(ctx context.Context, method, path string, body, into any) error {
	return c.AskIf(ctx, method, path, nil, body, into)
}

// AskIf is Ask with further headers, such as If-Match.
func (c *Client) AskIf(ctx context.Context, method, path string, headers map[string]string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := c.Request(ctx, method, path, body)
	if err != nil {
		return err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := c.Do(request)
	if err != nil {
		return c.Unreachable(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the answer of %s did not end within %v; is the network slow, or the server busy? \"holter doctor\" looks", c.Base, c.Timeout)
	case err != nil:
		return fmt.Errorf("the answer of %s broke off: %w", c.Base, err)
	case answer.StatusCode >= 300:
		return c.Refused(request, answer, text)
	case len(text) > MaxAnswer:
		return fmt.Errorf("%s: %w: the answer has more than %d MiB", c.Base, ErrStranger, MaxAnswer>>20)
	case into == nil:
		return nil
	}
	got := Answer{JSON: text, ETag: answer.Header.Get("ETag"), Strange: c.Stranger(answer, text)}
	if raw, ok := into.(*Answer); ok && json.Valid(text) {
		*raw = got
		return nil
	}
	return got.Decode(into)
}

// Answer is the JSON of an answer that is decoded later, in whole or in part.
type Answer struct {
	JSON    json.RawMessage
	ETag    string // of what was read; empty if the API gives none
	Strange error  // says that the answer is not one of the API; return it if the JSON does not fit
}

// Decode stores the JSON in into. Its error says that the answer is not one of the API.
func (a *Answer) Decode(into any) error {
	if json.Unmarshal(a.JSON, into) != nil {
		return a.Strange
	}
	return nil
}

// Request returns a request with a body, if it is not nil, as JSON.
func (c *Client) Request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	if plain, _, _ := strings.Cut(path, "?"); strings.Contains(plain+"/", "//") {
		return nil, ErrEmptyName // it stands in the path, and nothing else does that may be empty
	}
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("--api: %w: %w", ErrBadURL, err)
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

// Escape makes an id one segment of a path, also one that would mean a directory.
func Escape(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
