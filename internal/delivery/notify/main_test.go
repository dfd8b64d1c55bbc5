package notify_test

import (
	"testing"

	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
)

func TestMain(m *testing.M) { sinktest.Main(m) }
