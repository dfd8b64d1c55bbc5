package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// signer signs requests by the scheme of Standard Webhooks,
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. It
// signs with each secret, so that the receiver may change from one to the other at any time.
type signer []*standardwebhooks.Webhook

// Lengths of a secret in bytes, as the specification has them.
const (
	minSecret = 24
	maxSecret = 64
)

// newSigner returns a signer with secrets in base64, with or without whsec_ before them. Empty ones
// are left out.
func newSigner(secrets ...string) (signer, error) {
	var s signer
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil, errors.New("a secret is not written in base64, as in whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		}
		if len(key) < minSecret || len(key) > maxSecret {
			return nil, fmt.Errorf("a secret has %d bytes, want %d to %d", len(key), minSecret, maxSecret)
		}
		w, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, err
		}
		s = append(s, w)
	}
	return s, nil
}

// sign adds id, time and signatures to the headers of a request. Without a secret there is no
// signature.
func (s signer) sign(header http.Header, id string, now time.Time, body []byte) error {
	id = headerID(id)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	signatures := make([]string, 0, len(s))
	for _, w := range s {
		signature, err := w.Sign(id, now, body)
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		signatures = append(signatures, signature)
	}
	if len(signatures) > 0 {
		header.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
	return nil
}

// headerID escapes an id for a header. A dot is escaped as well, since it separates id, time and body
// in what is signed.
func headerID(id string) string {
	return sink.EscapeID(id, func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-:/", c) >= 0
	})
}
