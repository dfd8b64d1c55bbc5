package delivery_test

import (
	"testing"

	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
)

func TestMain(m *testing.M) {
	child()
	sinktest.Main(m)
}
