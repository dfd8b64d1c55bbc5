package config

import (
	"fmt"
	"log/slog"
)

// Secret is a text that no formatting, logging or encoding shows. Its zero
// value is unset.
type Secret struct{ text string }

// NewSecret returns text as a Secret. The empty text is the unset one.
func NewSecret(text string) Secret { return Secret{text} }

// IsSet reports whether there is a secret.
func (s Secret) IsSet() bool { return s.text != "" }

// Reveal returns the text. Never print, log or store it.
func (s Secret) Reveal() string { return s.text }

// String returns a placeholder, or nothing where the secret is unset.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "[secret]"
}

// Format writes the placeholder whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue is what slog shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what JSON and other encodings show.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
