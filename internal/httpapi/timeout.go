package httpapi

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

// Timeout is the heard silence after which a device is offline, in milliseconds. In JSON it is null
// if silence means nothing; in Go it is liveness.Never then.
type Timeout float64

func timeoutOf(d time.Duration) Timeout { return Timeout(milliseconds(d)) }

// Never reports whether silence means nothing.
func (t Timeout) Never() bool { return t >= timeoutOf(liveness.Never) }

// MarshalJSON implements json.Marshaler.
func (t Timeout) MarshalJSON() ([]byte, error) {
	if t.Never() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(t))
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Timeout) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*t = timeoutOf(liveness.Never)
		return nil
	}
	return json.Unmarshal(text, (*float64)(t))
}

// Schema implements huma.SchemaProvider.
func (Timeout) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Format: "double", Nullable: true, Description: "The heard silence after which it is offline, in milliseconds; null if silence means nothing."}
}
