// Package cert keeps the certificates of a TLS server, of devices or any other, and takes new ones up while it serves.
//
// [Load] reads them once. A [Reloader] looks at their files every second, and whenever [Reloader.Look] is called: new connections get what
// the files hold then, those that are open keep what they have. Files that are broken change nothing: what was loaded before goes on, and
// one warning for each change says what is wrong, where, and what to do.
//
// Files may be replaced in place, renamed over, or be links into a folder that is swapped. Where only the certificate was replaced so far,
// and the key comes a moment later, the pair counts as broken in between.
//
// Sessions can be resumed across a change. One that began with a client's certificate can be only if the authority which signed that is
// still among the authorities.
package cert
