//go:build !linux && !darwin

package cli

import (
	"errors"
	"os"
)

// hideInput keeps a terminal from showing what is typed, where that is known.
func hideInput(*os.File) (show func(), err error) {
	return func() {}, errors.ErrUnsupported
}
