package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// object is a JSON object.
type object = map[string]any

// post POSTs a JSON object.
func (a *attempt) post(ctx context.Context, address string, header http.Header, body object) sink.Result {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // it would make texts longer than the services allow
	if err := encoder.Encode(body); err != nil {
		return sink.Result{Err: err, Permanent: true}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &text)
	if err != nil {
		return sink.Result{Err: err}
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Content-Type", "application/json")
	return a.client.Do(request)
}

// hash returns 16 hexadecimal digits that stand for a text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// without returns an object without what is empty.
func without(o object) object {
	for name, value := range o {
		if value == "" || value == nil {
			delete(o, name)
		}
	}
	return o
}
