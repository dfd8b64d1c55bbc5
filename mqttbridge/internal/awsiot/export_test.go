package awsiot

import "github.com/holter-iot/holter/mqttbridge/convention"

// NewLimited returns a convention that remembers at most limit clients.
func NewLimited(limit int) convention.Convention {
	p := New().(*Presence)
	p.limit = limit
	return p
}

// Remembered is how many clients are remembered.
func Remembered(c convention.Convention) int { return len(c.(*Presence).clients) }
