// Package mqttstore keeps the sessions, delayed wills and retained messages of an MQTT broker in a
// database of package sqldb.
//
// # Use
//
// Open the database, hand a [Store] to the broker in its Config, then open and run the broker. End
// the broker before the database is closed. Only the process that has raised the fence of the
// database writes, so a broker that another process has replaced acknowledges nothing more.
//
// # Cost
//
// There is one row for each record, in the table mqtt_records. A message with QoS 1 for a client
// that is away puts two rows; its acknowledgement deletes them. All changes that wait for a commit
// go into one transaction, so the time of a commit is shared by all messages that came during the
// one before.
package mqttstore
