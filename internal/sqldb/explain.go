package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holter-iot/holter/internal/errkind"
)

// Error is the error of a database that does not do what it should.
type Error struct {
	Op    string // what was tried
	Place string // where the database is
	Cause string // what is wrong and what to do, see [Explain]
	Err   error
}

func (e *Error) Error() string {
	if e.Cause == "" {
		return fmt.Sprintf("database: %s: %s: %v", e.Op, e.Place, e.Err)
	}
	return fmt.Sprintf("database: %s: %s: %s (%v)", e.Op, e.Place, e.Cause, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// wrap adds to an error what was tried, where, and what is wrong. Errors of this package, which say
// so themselves, and errors that have a kind stay as they are.
func (db *DB) wrap(op string, err error) error {
	if err == nil || errkind.Is(err) || errors.As(err, new(*Error)) {
		return err
	}
	for _, own := range []error{ErrLocked, ErrNewerSchema, ErrFenced, ErrNotOpen, ErrLost, ErrFile, ErrMoved, ErrNoFleet, ErrNotEmpty, ErrFull} {
		if errors.Is(err, own) {
			return err
		}
	}
	if _, ok := db.backend.(still); ok { // what to do about it is not what to do about the database of a server
		return fmt.Errorf("%s: %w", op, err)
	}
	dir := ""
	if file, ok := db.backend.(*sqliteDB); ok {
		dir = filepath.Dir(file.path)
	}
	return &Error{Op: op, Place: db.Place(), Cause: causeOf(err, dir), Err: err}
}

// Explain returns what is wrong and what to do about it, for an error of this package; for others it
// returns their text.
func Explain(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != "" {
		return e.Cause
	}
	if cause := causeOf(err, ""); cause != "" {
		return cause
	}
	return err.Error()
}

const (
	causeRefused   = "connection refused: is the database server running, and is this its address?"
	causeAuth      = "authentication failed: check user and password in the database URL"
	causeNoDB      = "the server has no such database: create it, or check the name in the database URL"
	causeDenied    = "permission denied: the database user must be allowed to create tables and to read and write them"
	causeBusy      = "the server has no connection left: raise its limit, or close others"
	causeShutdown  = "the server is shutting down or starting: it is tried again"
	causeReadOnly  = "the server takes no changes (it is a replica, or read-only): point the database URL at the primary"
	causeServer    = "the server's disk is full: free space there"
	causeTimeout   = "no answer in time: the server hangs, is overloaded, or cannot be reached"
	causePooler    = "the pooler before the server refuses what holter asks for; for PgBouncer: ignore_startup_parameters = tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count"
	causePrepared  = "a pooler before the server loses prepared statements: add default_query_exec_mode=exec to the database URL, or let it keep them (PgBouncer 1.21 or later: max_prepared_statements)"
	causeLost      = "the connection to the server was lost: it is made anew"
	causeCorrupted = "the database file is damaged: restore a backup, or move the file away and begin anew with --accept-loss"
)

// causeOf returns what is wrong, empty if that is not known. dir is the directory of a database in a
// file.
func causeOf(err error, dir string) string {
	if dir == "" {
		dir = "the data directory"
	}
	var file *sqlite.Error
	var pg *pgconn.PgError
	var my *mysql.MySQLError
	switch {
	case errors.As(err, &file):
		if cause := sqliteCause(file.Code(), dir); cause != "" {
			return cause
		}
	case errors.As(err, &pg):
		if cause := postgresCause(pg); cause != "" {
			return cause
		}
	case errors.As(err, &my):
		if cause := mysqlCause(my.Number); cause != "" {
			return cause
		}
	}
	return systemCause(err, dir)
}

func sqliteCause(code int, dir string) string {
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return diskFull(dir)
	case sqlite3.SQLITE_READONLY:
		return "read-only: " + dir + " or the file must be writable for this user, and its file system mounted for writing"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return "the file cannot be opened: " + dir + " must exist and be writable for this user"
	case sqlite3.SQLITE_IOERR:
		return "the disk of " + dir + " fails or is full: see the system's log"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another program holds the database file: close it (a backup tool or an SQLite shell in a transaction?)"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return causeCorrupted
	}
	return ""
}

func diskFull(dir string) string {
	return "disk full: free space on the file system of " + dir + " (needs at least 100 MB to work in); it goes on by itself then"
}

func postgresCause(err *pgconn.PgError) string {
	switch err.Code {
	case "28P01", "28000":
		return causeAuth
	case "3D000":
		return causeNoDB
	case "42501":
		return causeDenied
	case "53300":
		return causeBusy
	case "53100":
		return causeServer
	case "25006":
		return causeReadOnly
	case "57P01", "57P02", "57P03":
		return causeShutdown
	case "57014":
		return causeTimeout
	case codeProtocol:
		if strings.Contains(err.Message, "startup parameter") {
			return causePooler
		}
	case codePrepared, codeUnprepared:
		return causePrepared
	}
	return ""
}

func mysqlCause(number uint16) string {
	switch number {
	case 1045, 1698:
		return causeAuth
	case 1049:
		return causeNoDB
	case 1044, 1142, 1227:
		return causeDenied
	case 1040, 1203, 1226:
		return causeBusy
	case 1021, 1114:
		return causeServer
	case 1290, 1792, 1836:
		return causeReadOnly
	case 1053, 1079:
		return causeShutdown
	case 1205:
		return causeTimeout
	}
	return ""
}

// systemCause is causeOf for errors of the system and the network.
func systemCause(err error, dir string) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull(dir)
	case errors.Is(err, syscall.EROFS):
		return "read-only file system: mount " + dir + " for writing, or use another directory"
	case errors.Is(err, syscall.ECONNREFUSED):
		return causeRefused
	case errors.As(err, &dns):
		return "the name of the server, " + dns.Name + ", is not known: check the database URL and the name service"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to the server: check the network and the database URL"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied: " + dir + " must be writable for this user"
	case errors.Is(err, fs.ErrNotExist):
		return "not there: create the directory above " + dir + ", or check the path (is something not mounted?); of a server, check its socket"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return causeTimeout
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return causeLost
	}
	return ""
}
