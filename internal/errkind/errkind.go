// Package errkind makes errors that have a kind, for errors.Is, without the kind's text in their
// message: people read the message, and need no name of a package in it.
package errkind

import (
	"errors"
	"fmt"
)

// Errorf returns an error with the message of fmt.Errorf. It wraps the kind, and what fmt.Errorf would
// wrap.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{fmt.Errorf(format, args...), kind}
}

type kindError struct{ says, kind error }

func (e *kindError) Error() string { return e.says.Error() }

func (e *kindError) Unwrap() []error { return []error{e.kind, e.says} }

// Is reports whether err is or wraps an error of Errorf.
func Is(err error) bool {
	_, ok := errors.AsType[*kindError](err)
	return ok
}
