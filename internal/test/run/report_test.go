package main

import (
	"strings"
	"testing"
)

// events is what go test -json prints of five packages: one that passes, with a test of another level and one that lacks a program, one
// that fails, one that crashes in a test, one that does not build, and one without tests.
const events = `{"Action":"start","Package":"github.com/holter-iot/holter/timer"}
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"github.com/holter-iot/holter/timer","Test":"TestTouch"}
{"Action":"output","Package":"github.com/holter-iot/holter/timer","Test":"TestTouch","Output":"=== RUN   TestTouch\n"}
{"Action":"pass","Package":"github.com/holter-iot/holter/timer","Test":"TestTouch/once","Elapsed":0.5}
{"Time":"2026-01-01T00:00:30Z","Action":"pass","Package":"github.com/holter-iot/holter/timer","Test":"TestTouch","Elapsed":0.5}
{"Action":"output","Package":"github.com/holter-iot/holter/timer","Test":"TestSoakTouch","Output":"    a_test.go:7: belongs to make soak\n"}
{"Action":"skip","Package":"github.com/holter-iot/holter/timer","Test":"TestSoakTouch","Elapsed":0}
{"Action":"output","Package":"github.com/holter-iot/holter/timer","Test":"TestServer","Output":"    a_test.go:9: NOT TESTED: there is no server\n"}
{"Action":"skip","Package":"github.com/holter-iot/holter/timer","Test":"TestServer","Elapsed":0}
{"Action":"pass","Package":"github.com/holter-iot/holter/timer","Elapsed":1.25}
{"Action":"output","Package":"github.com/holter-iot/holter/internal/store","Test":"TestAppend","Output":"    b_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"github.com/holter-iot/holter/internal/store","Test":"TestAppend","Elapsed":0.1}
{"Action":"fail","Package":"github.com/holter-iot/holter/internal/store","Elapsed":0.2}
{"Action":"output","Package":"github.com/holter-iot/holter/internal/jobs","Test":"TestRun","Output":"panic: nil map\n"}
{"Action":"output","Package":"github.com/holter-iot/holter/internal/jobs","Output":"exit status 2\n"}
{"Action":"fail","Package":"github.com/holter-iot/holter/internal/jobs","Elapsed":0.3}
{"Action":"build-output","ImportPath":"github.com/holter-iot/holter/dag [dag.test]","Output":"dag.go:3: undefined: x\n"}
{"Action":"fail","Package":"github.com/holter-iot/holter/dag","Elapsed":0,"FailedBuild":"github.com/holter-iot/holter/dag [dag.test]"}
{"Action":"skip","Package":"github.com/holter-iot/holter/cmd/holter","Elapsed":0}
a line of go test itself
`

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.summary()
	for _, want := range []string{
		"ok      1.2 s timer\n", "slow   30.0 s timer TestTouch\n", "FAIL internal/store TestAppend (0.1 s)\n    b_test.go:3: got 1, want 2\n", "panic: nil map\n", "dag.go:3: undefined: x\n",
		"a line of go test itself\n", "skipped: NOT TESTED: there is no server (timer TestServer)\n", "1 tests not run here: each belongs to make soak\n",
		"FAIL internal/store TestAppend\n", "FAIL internal/jobs (did not build, or crashed)\n", "FAIL dag (did not build, or crashed)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if want := "\n2 passed, 3 failed, 1 skipped\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %q at the end of\n%s", want, out.String())
	}
}

func TestTable(t *testing.T) {
	r := newReport(new(strings.Builder))
	r.results = []result{
		{"gateway", "TestSoakStop", "pass", 61.34}, {"store", "FuzzPage", "pass", 0}, {"store", "FuzzPage", "pass", 10.2}, {"store", "TestSoakKill", "skip", 0},
	}
	page := "# Tests\n" + begin + head + "| gateway TestSoakStop | 50.0 | fail | old |\n| jobs TestSoakKill | 5.0 | pass | old |\n" + end + "More.\n"
	got, err := r.updateTable(page, "new")
	want := "# Tests\n" + begin + head + "| gateway TestSoakStop | 61.3 | pass | new |\n| jobs TestSoakKill | 5.0 | pass | old |\n| store FuzzPage | 10.2 | pass | new |\n" + end + "More.\n"
	if err != nil || got != want {
		t.Errorf("updateTable = %v,\n%s\nwant\n%s", err, got, want)
	}
	if _, err := r.updateTable("# Tests\n", "new"); err == nil {
		t.Error("a page without a place for the table is accepted")
	}
}
