package testdb

import (
	"strconv"
	"testing"
)

// Replica starts a program that receives what a PostgreSQL server commits, as a synchronous standby may, until
// the test ends.
func (s *Server) Replica(tb testing.TB) {
	tb.Helper()
	need(tb, "replica", "pg_receivewal")
	receiver := s.command("pg_receivewal", "-D", s.path("run"), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", user, "--synchronous")
	receiver.Env = append(receiver.Env, "PGPASSWORD="+password)
	must(tb, receiver.Start())
	tb.Cleanup(func() {
		_ = receiver.Process.Kill()
		_ = receiver.Wait() // it was killed
	})
}
