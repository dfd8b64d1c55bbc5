package main

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
)

// errStranger says that whoever answered is not the API of holter.
var errStranger = errors.New("not an answer of holter's API")

// errUnreachable says that nobody answered.
var errUnreachable = errors.New("does not answer")

// refusal is an answer of the API that is not a success.
type refusal struct {
	status int
	detail string        // what the API says of it
	text   string        // what the user is told
	after  time.Duration // when to come back; 0 if the API does not say
}

func (r *refusal) Error() string { return r.text }

// statusOf returns the status of a refusal, 0 of other errors.
func statusOf(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	return 0
}

// unreachable is the error of a request that got no answer.
func (c *client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err // the URL is said already
	}
	if help := tlsHelp(err); help != "" {
		return fmt.Errorf("the API at %s %w: %w\n%s", c.base, errUnreachable, err, help)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the API at %s %w within %v\n\"holter doctor\" looks for the reason; or say where it is with --api URL",
			c.base, errUnreachable, c.timeout)
	}
	if strings.Contains(err.Error(), "malformed HTTP") {
		return fmt.Errorf("%s: %w: what answers there does not speak HTTP; is it the port of the devices? --api takes the one of --http", c.base, errStranger)
	}
	return fmt.Errorf("the API at %s %w: %w\nStart it with \"holter serve\", or say where it is with --api URL", c.base, errUnreachable, err)
}

// tlsHelp says what to do about an error of TLS; nothing for other errors.
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

// refused is the error of an answer that is not a success.
func (c *client) refused(request *http.Request, answer *http.Response, body []byte) error {
	r := &refusal{status: answer.StatusCode, detail: problemDetail(answer, body)}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.after = time.Duration(min(seconds, 3600)) * time.Second
	}
	said := "."
	if r.detail != "" {
		said = ": " + printable(r.detail)
	}
	role := "read"
	if request.Method != http.MethodGet {
		role = "admin"
	}
	switch {
	case r.status == http.StatusUnauthorized && c.token == "":
		r.text = fmt.Sprintf("%s wants a token%s\nMake one on its machine with \"holter token create --role %s --name NAME\", and set HOLTER_API_TOKEN to it",
			c.base, said, role)
	case r.status == http.StatusUnauthorized:
		r.text = fmt.Sprintf("%s does not accept the token%s\nIt was revoked, or is not the whole of it; \"holter token list\" on its machine shows those there are",
			c.base, said)
	case r.status == http.StatusForbidden:
		r.text = fmt.Sprintf("%s: the token's role does not allow this%s\nUse a token made with \"holter token create --role %s\"", c.base, said, role)
	case r.detail == "" && r.status >= http.StatusBadGateway && r.status <= http.StatusGatewayTimeout:
		r.text = fmt.Sprintf("%s answers %s (%s): what stands before holter, such as a proxy, does not reach it",
			c.base, answer.Status, kindOf(answer))
	case r.detail == "":
		return c.stranger(answer, body)
	default:
		r.text = fmt.Sprintf("%s answers %s%s", c.base, answer.Status, said)
	}
	return r
}

// problemDetail returns the detail of a problem (RFC 9457); nothing if the answer is none.
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

// stranger is the error of an answer that is not Holter's.
func (c *client) stranger(answer *http.Response, body []byte) error {
	if to := answer.Header.Get("Location"); to != "" && answer.StatusCode/100 == 3 {
		return fmt.Errorf("%s: %w: it sends elsewhere, to %s; is --api right?", c.base, errStranger, printable(to))
	}
	if strings.Contains(string(body), "HTTP request to an HTTPS server") {
		return fmt.Errorf("%s: %w: the server speaks TLS; write https:// instead of http://", c.base, errStranger)
	}
	return fmt.Errorf("%s: %w (%s, %s); is --api right?", c.base, errStranger, answer.Status, kindOf(answer))
}

// kindOf returns the content type of an answer.
func kindOf(answer *http.Response) string {
	if kind := answer.Header.Get("Content-Type"); kind != "" {
		return printable(kind)
	}
	return "no content type"
}

// retryable says whether the same request may succeed later: nobody answers, or the server is not ready or has too much to do.
func retryable(err error) bool {
	switch status := statusOf(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, errStranger):
		return false
	case status == 0:
		_, usage := errors.AsType[usageError](err)
		return !usage && tlsHelp(err) == ""
	default:
		return status == http.StatusTooManyRequests || status >= 500
	}
}

// errNotOurs is the error of JSON that is not what was asked for.
func errNotOurs(c *client) error { return fmt.Errorf("%s: %w; is --api right?", c.base, errStranger) }
