package errkind_test

import (
	"errors"
	"io"
	"testing"

	"github.com/holter-iot/holter/internal/errkind"
)

func TestErrorf(t *testing.T) {
	kind := errors.New("kind")
	err := errkind.Errorf(kind, "line %d: %w", 7, io.EOF)
	if err.Error() != "line 7: EOF" || !errors.Is(err, kind) || !errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}
