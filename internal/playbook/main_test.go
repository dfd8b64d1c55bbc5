package playbook_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/test/testdb"
)

func TestMain(m *testing.M) {
	child()
	goleak.VerifyTestMain(testdb.Main(m),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}
