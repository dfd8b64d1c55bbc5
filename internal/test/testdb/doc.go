// Package testdb runs real PostgreSQL and MariaDB servers for tests: in a temporary directory, on a free port, as an unprivileged user if
// the tests run as root. One server of each kind serves a whole run of the tests, or a test binary that is run by itself, and each test gets
// a database of its own, see [Postgres] and [MariaDB]; a test that stops or kills its server has one to itself, see [NewPostgres] and [NewMariaDB].
// [PgBouncer] puts a pooler before PostgreSQL, [Server.Replica] attaches a receiver of its commits to it, and [NewStandby] a server that can
// be promoted.
//
// Servers end with the test binary, also if that is killed: each is started by a shell that waits for a pipe to be closed.
//
// A test whose server is not installed is skipped, or fails, as package testenv says. deploy/testing/setup.sh installs the servers where that is
// possible.
package testdb
