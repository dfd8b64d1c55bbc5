package store_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/test/testdb"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		appendForEver(url)
	}
	// The ants package keeps a pool of its own, which nobody here uses.
	goleak.VerifyTestMain(testdb.Main(m),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}
