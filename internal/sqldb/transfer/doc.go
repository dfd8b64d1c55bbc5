// Package transfer copies a fleet as a whole from one database to another: into a file that is a backup,
// from there into a database, or from a database into another one while the fleet goes on.
//
// All read the source at one instant ([sqldb.DB.Snapshot]), table by table, and hold no more than some
// thousand rows in memory. What was written is read again, and compared by count and checksum with what was
// read. The tables are those that the migrations make; what becomes of rows that are about a process only,
// see [skipped].
//
// # A backup
//
// A backup is an SQLite file with the tables of the fleet, whichever database it is of. It has three tables
// more: backup_info, backup_tables with the count and the checksum of each table, and backup_files. It has
// the secrets of the fleet, so it is readable for its owner only.
package transfer
