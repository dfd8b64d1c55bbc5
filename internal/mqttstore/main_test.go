package mqttstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/test/testdb"
)

func TestMain(m *testing.M) {
	child()
	goleak.VerifyTestMain(testdb.Main(m))
}
