// Package errkind makes errors that are of a kind, for errors.Is, and do not say so: what they say is for people, who get it without the
// words that say which package it is from.
package errkind

import (
	"errors"
	"fmt"
)

// Errorf returns an error that says what fmt.Errorf would say, and wraps what that would wrap, and the kind.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{fmt.Errorf(format, args...), kind}
}

type kindError struct{ says, kind error }

func (e *kindError) Error() string { return e.says.Error() }

func (e *kindError) Unwrap() []error { return []error{e.kind, e.says} }

// Is reports whether err is or wraps an error that Errorf has made.
func Is(err error) bool {
	_, ok := errors.AsType[*kindError](err)
	return ok
}
