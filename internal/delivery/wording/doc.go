// Package wording says in words what a message of a delivery reports: in a title and some lines of plain
// text, by default or by the templates of an endpoint, for one event or for several that are told
// together. It knows no service: what is plain text here is escaped by whoever sends it.
//
// Whatever is told comes from devices: their ids and messages may be hostile. A [Notification] has each
// of them in one line, without control characters and without those that change the direction of text.
package wording
