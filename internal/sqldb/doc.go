// Package sqldb is the database that several packages keep rows in: SQLite, PostgreSQL, or MariaDB
// and MySQL. It has connections, transactions, the schema of all tables, and what keeps a second
// process from writing. It knows no device, event or job; the packages that own rows do.
//
// # One writer
//
// A process that writes opens the database with [DB.Open], which takes the lock of a file or the
// lease of a server, brings the schema up to date and raises the number of a fence, all before
// anything else is written. Every transaction of [DB.Write] checks that number. Should the lock
// fail, a writer that was overtaken can change nothing, even if it has not noticed yet
// ([ErrFenced]). Packages that own rows join in the transaction that raises the fence, see
// [DB.Own].
//
// The lease of a server is the one row of the table judge. It names its holder, who renews it every
// second, and it ends 6 s after the latest renewal by the clock of the server. Each holder has a
// term, higher than all before, and a random nonce; the fence is both. [DB.Holder] tells who has
// it, and [DB.Run] ends when another process has.
//
// # Failures
//
// After an error of a transaction it is not known whether the transaction was committed, unless the
// error is one of the caller's function. The connection is given up, so the next transaction finds
// the truth in the database. Reads are repeated when a connection turns out to be lost.
//
// A database in a file is guarded: what goes into a file that is no longer at its path does not
// count as written ([ErrFile]). It is not written anew. A database that is missing at the start is
// noticed by a note in the data directory ([ErrLost]).
//
// # Concurrency
//
// All methods may be called concurrently. [DB.Run] watches the database while it is at work.
package sqldb
