package delivery

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// signer signs webhooks by the scheme of Standard Webhooks,
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: with each secret, so that the receiver may
// change from one to the other at any time.
type signer []*standardwebhooks.Webhook

// Lengths of a secret in bytes, as the specification has them.
const (
	minSecret = 24
	maxSecret = 64
)

// newSigner returns what signs with some secrets, written whsec_ and base64; empty ones are left out.
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

// sign puts id, time and signatures into the headers of a request. Without a secret there is no signature.
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

// headerID writes an id so that any header takes it and no dot is in it, which parts id, time and body where they are signed: all but
// letters, digits and _ - : / become %XX.
func headerID(id string) string {
	plain := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-:/", c) >= 0
	}
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
