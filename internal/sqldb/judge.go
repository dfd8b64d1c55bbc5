package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// judge is the table with the one row that says which process may write to a database on a server. It
// is no part of the migrations, since those run under its lease. Each statement is a transaction.
type judge struct {
	backend

	pool *sql.DB
}

// judgeRow is the row. Instants are Unix time in µs by the database's clock.
type judgeRow struct {
	fence // the latest term, and the random number of its holder; 0 after its release

	node    string // name of the holder; "" for none
	process string // for people
	taken   int64
	renewed int64
	lease   int64 // in µs
}

// free reports whether anybody may take the lease. A renewal that lies in the future by more than the
// lease was made by a clock that has been set back since, or by hand.
func (r judgeRow) free(nowMicros int64) bool {
	age := nowMicros - r.renewed
	return r.node == "" || age > r.lease || age < -r.lease
}

// next returns the term of the next holder. fence is that of meta: a row that was edited, or was
// deleted and made anew, does not make terms fall.
func (r judgeRow) next(fence int64) int64 { return max(r.term, fence) + 1 }

// text describes the holder for people.
func (r judgeRow) text(nowMicros int64) string {
	age := time.Duration(nowMicros-r.renewed) * time.Microsecond
	return fmt.Sprintf("%s (%s, since %s), term %d, whose lease was renewed %v ago", r.node, r.process,
		time.UnixMicro(r.taken).UTC().Format("2006-01-02 15:04:05 MST"), r.term, age.Round(100*time.Millisecond))
}

// identity is what a row says about its holder.
type identity struct{ node, process string }

// processName describes this process.
func processName() string {
	return fmt.Sprintf("pid %d on %.100s", os.Getpid(), ascii(hostname()))
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

// ascii replaces what a database may not be able to store.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// exec runs a statement and returns how many rows it found.
func (j judge) exec(ctx context.Context, conn *sql.Conn, query string, args ...any) (int64, error) {
	return exec(ctx, j.backend, conn, query, args...)
}

// look returns the row, and what the database's clock shows. Errors: errNoJudge.
func (j judge) look(ctx context.Context, conn *sql.Conn) (r judgeRow, nowMicros int64, err error) {
	query := "SELECT term, nonce, node, process, taken, renewed, lease, " + j.clock() + " FROM judge WHERE id = 1"
	err = conn.QueryRowContext(ctx, query).Scan(&r.term, &r.nonce, &r.node, &r.process, &r.taken, &r.renewed, &r.lease, &nowMicros)
	if errors.Is(err, sql.ErrNoRows) || isNoTable(err) {
		err = errNoJudge
	}
	return r, nowMicros, err
}

// errNoJudge is returned if there is no row yet.
var errNoJudge = errors.New("sqldb: the table judge is not there")

func isNoTable(err error) bool {
	pg, isPg := errors.AsType[*pgconn.PgError](err)
	my, isMy := errors.AsType[*mysql.MySQLError](err)
	return isPg && pg.Code == "42P01" || isMy && my.Number == 1146
}

// find is look that makes the row if it is not there. Another process may do the same at the same time.
func (j judge) find(ctx context.Context, conn *sql.Conn) (r judgeRow, nowMicros int64, err error) {
	for tries := 0; ; tries++ {
		if r, nowMicros, err = j.look(ctx, conn); !errors.Is(err, errNoJudge) || tries == 3 {
			return r, nowMicros, err
		}
		fence, err := j.metaFence(ctx, conn)
		if err != nil {
			return judgeRow{}, 0, err
		}
		_, err = j.exec(ctx, conn, "CREATE TABLE IF NOT EXISTS judge (id BIGINT PRIMARY KEY, node VARCHAR(100) NOT NULL, process VARCHAR(200) NOT NULL,"+
			" term BIGINT NOT NULL, nonce BIGINT NOT NULL, taken BIGINT NOT NULL, renewed BIGINT NOT NULL, lease BIGINT NOT NULL)")
		if err == nil {
			_, err = j.exec(ctx, conn, "INSERT INTO judge (id, node, process, term, nonce, taken, renewed, lease) VALUES (1, '', '', ?, 0, 0, 0, 0)", fence)
		}
		if err != nil && (tries == 2 || ctx.Err() != nil) { // before, another process may have been faster
			return judgeRow{}, 0, err
		}
	}
}

// metaFence returns the number of the fence, 0 if there is none yet.
func (j judge) metaFence(ctx context.Context, conn *sql.Conn) (number int64, err error) {
	err = conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(fence), 0) FROM meta WHERE id = 1").Scan(&number)
	if isNoTable(err) {
		err = nil
	}
	return number, err
}

// fenceIs reports whether the fence is that of a holder.
func (j judge) fenceIs(ctx context.Context, conn *sql.Conn, f fence) (bool, error) {
	n := 0
	err := Reader{backend: j.backend, on: conn}.QueryRowContext(ctx, "SELECT COUNT(*) FROM meta WHERE id = 1 AND fence = ? AND nonce = ?", f.term, f.nonce).Scan(&n)
	return n > 0, err
}

// claim makes a process the holder if the row is what was seen: since its holder has not renewed it, what
// allowed to take it then does so now. Terms do not fall.
func (j judge) claim(ctx context.Context, conn *sql.Conn, seen judgeRow, who identity, f fence, length time.Duration) (bool, error) {
	n, err := j.exec(ctx, conn, "UPDATE judge SET node = ?, process = ?, term = ?, nonce = ?, taken = "+j.clock()+", renewed = "+j.clock()+", lease = ?"+
		" WHERE id = 1 AND term = ? AND nonce = ? AND renewed = ?",
		who.node, who.process, max(f.term, seen.term), f.nonce, length.Microseconds(), seen.term, seen.nonce, seen.renewed)
	return n > 0, err
}

// renew renews the lease of a holder, and reports whether it still has it. What was edited by hand is put
// right: the nonce alone tells whose the row is.
func (j judge) renew(ctx context.Context, conn *sql.Conn, who identity, f fence, length time.Duration) (bool, error) {
	n, err := j.exec(ctx, conn, "UPDATE judge SET node = ?, process = ?, term = GREATEST(term, ?), renewed = "+j.clock()+", lease = ?"+
		" WHERE id = 1 AND nonce = ?", who.node, who.process, f.term, length.Microseconds(), f.nonce)
	if isNoTable(err) { // as if the row were gone
		err = nil
	}
	return n > 0, err
}

// clear ends the lease of a holder. A renewal that is still under way somewhere does not bring it back.
func (j judge) clear(ctx context.Context, conn *sql.Conn, f fence) error {
	_, err := j.exec(ctx, conn, "UPDATE judge SET node = '', process = '', nonce = 0, renewed = 0 WHERE id = 1 AND nonce = ?", f.nonce)
	return err
}

// on runs statements on a connection, within a time. After an error the connection is given up. One that
// turns out to be lost is replaced once, so do may be called twice.
func (j judge) on(ctx context.Context, limit time.Duration, do func(ctx context.Context, conn *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for tries := 0; ; tries++ {
		err := j.once(ctx, do)
		if err == nil || tries > 0 || ctx.Err() != nil || !lost(err) {
			return err
		}
	}
}

func (j judge) once(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	conn, err := j.pool.Conn(ctx)
	if err != nil {
		return err
	}
	if err = do(ctx, conn); err != nil {
		discard(conn)
	}
	_ = conn.Close() // gives it back
	return err
}
