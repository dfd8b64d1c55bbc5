package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/terminal"
)

// ErrStranger is returned when the answer does not come from the API of holter.
var ErrStranger = errors.New("not an answer of holter's API")

// ErrEmptyName is returned when a name that belongs into a path is empty.
var ErrEmptyName = errors.New("the name is empty")

// ErrBadURL is returned when the URL of the API is not a URL.
var ErrBadURL = errors.New("bad URL")

// ErrUnreachable is returned when nothing answers.
var ErrUnreachable = errors.New("does not answer")

// Error is an answer of the API that is not a success.
type Error struct {
	Status int
	Detail string        // what the API says of it
	text   string        // what the user is told
	After  time.Duration // when to come back; 0 if the API does not say
}

func (r *Error) Error() string { return r.text }

// StatusOf returns the status of a refusal, 0 of other errors.
func StatusOf(err error) int {
	if r, ok := errors.AsType[*Error](err); ok {
		return r.Status
	}
	return 0
}

// Unreachable returns the error of a request without an answer.
func (c *Client) Unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err // the URL is said already
	}
	if help := tlsHelp(err); help != "" {
		return fmt.Errorf("the API at %s %w: %w\n%s", c.Base, ErrUnreachable, err, help)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the API at %s %w within %v\n\"holter doctor\" looks for the reason; or say where it is with --api URL",
			c.Base, ErrUnreachable, c.Timeout)
	}
	if strings.Contains(err.Error(), "malformed HTTP") {
		return fmt.Errorf("%s: %w: what answers there does not speak HTTP; is it the port of the devices? --api takes the one of --http", c.Base, ErrStranger)
	}
	return fmt.Errorf("the API at %s %w: %w\nStart it with \"holter serve\", or say where it is with --api URL", c.Base, ErrUnreachable, err)
}

// tlsHelp returns advice about an error of TLS; "" for other errors.
func tlsHelp(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "This machine does not know who signed the certificate: give the signer's with --ca FILE"
	}
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return "The certificate is not for " + host.Host + ": write --api with a name that it is for, or make a new certificate"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "Renew the certificate, or set this machine's clock if it is wrong"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "It does not speak TLS: write http:// instead of https://"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "The certificate is not accepted: give the signer's with --ca FILE, or make a new one"
	}
	return ""
}

// Refused returns the error of an answer that is not a success.
func (c *Client) Refused(request *http.Request, answer *http.Response, body []byte) error {
	r := &Error{Status: answer.StatusCode, Detail: problemDetail(answer, body)}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.After = time.Duration(min(seconds, 3600)) * time.Second
	}
	said := "."
	if r.Detail != "" {
		said = ": " + terminal.Printable(r.Detail)
	}
	role := "read"
	switch {
	case strings.HasPrefix(request.URL.Path, "/v1/beat"):
		role = "beat"
	case request.Method != http.MethodGet:
		role = "admin"
	}
	switch {
	case r.Status == http.StatusUnauthorized && c.token == "":
		r.text = fmt.Sprintf("%s wants a token%s\nMake one on its machine with \"holter tokens create --role %s --name NAME\", and set HOLTER_API_TOKEN to it",
			c.Base, said, role)
	case r.Status == http.StatusUnauthorized:
		r.text = fmt.Sprintf("%s does not accept the token%s\nIt was deleted, or is not complete; \"holter tokens list\" on its machine shows those there are",
			c.Base, said)
	case r.Status == http.StatusForbidden:
		r.text = fmt.Sprintf("%s: the token's role does not allow this%s\nUse a token made with \"holter tokens create --role %s\"", c.Base, said, role)
	case r.Detail == "" && r.Status >= http.StatusBadGateway && r.Status <= http.StatusGatewayTimeout:
		r.text = fmt.Sprintf("%s answers %s (%s): what stands before holter, such as a proxy, does not reach it",
			c.Base, answer.Status, kindOf(answer))
	case r.Detail == "":
		return c.Stranger(answer, body)
	default:
		r.text = fmt.Sprintf("%s answers %s%s", c.Base, answer.Status, said)
	}
	return r
}

// problemDetail returns the detail of a problem (RFC 9457); "" if the answer is not a problem.
func problemDetail(answer *http.Response, body []byte) string {
	var problem struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(body, &problem); err != nil || problem.Status != answer.StatusCode {
		return ""
	}
	return problem.Detail
}

// Stranger returns the error of an answer that is not one of the API.
func (c *Client) Stranger(answer *http.Response, body []byte) error {
	if to := answer.Header.Get("Location"); to != "" && answer.StatusCode/100 == 3 {
		return fmt.Errorf("%s: %w: it sends elsewhere, to %s; is --api right?", c.Base, ErrStranger, terminal.Printable(to))
	}
	if strings.Contains(string(body), "HTTP request to an HTTPS server") {
		return fmt.Errorf("%s: %w: the server speaks TLS; write https:// instead of http://", c.Base, ErrStranger)
	}
	return fmt.Errorf("%s: %w (%s, %s); is --api right?", c.Base, ErrStranger, answer.Status, kindOf(answer))
}

// kindOf returns the content type of an answer.
func kindOf(answer *http.Response) string {
	if kind := answer.Header.Get("Content-Type"); kind != "" {
		return terminal.Printable(kind)
	}
	return "no content type"
}

// Retryable reports whether the same request may succeed later: nobody answers, or the server is not ready or has too much to do.
func Retryable(err error) bool {
	switch status := StatusOf(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, ErrStranger):
		return false
	case status == 0:
		return !errors.Is(err, ErrEmptyName) && !errors.Is(err, ErrBadURL) && tlsHelp(err) == ""
	default:
		return status == http.StatusTooManyRequests || status >= 500
	}
}
