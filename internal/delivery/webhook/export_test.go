package webhook

import (
	"net/http"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// Through returns a webhook that uses a transport.
func Through(transport http.RoundTripper) sink.Sink {
	return &webhook{client: &Client{agent: "holter/test", http: over(transport)}, target: "http://example.org/hook", header: make(http.Header)}
}

// What the tests look at.
var (
	RetryAfter = retryAfter
	HeaderID   = headerID
)

// Sign signs a message.
func Sign(header http.Header, id string, now time.Time, body []byte, secrets ...string) error {
	s, err := newSigner(secrets...)
	if err != nil {
		return err
	}
	return s.sign(header, id, now, body)
}
