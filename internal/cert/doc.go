// Package cert loads the certificates of a TLS server, and replaces them while it serves.
//
// [Load] reads them once. A [Reloader] looks at their files every second, and whenever
// [Reloader.Look] is called. New connections get what the files hold then; open ones keep what they
// have. Files that are broken change nothing: what was loaded before stays in use, and one warning
// for each change says what is wrong, where, and what to do.
//
// Files may be replaced in place, renamed over, or be links into a folder that is swapped. While
// only the certificate has been replaced, and not its key, the pair counts as broken.
//
// Sessions can be resumed across a change. One that began with a client's certificate can be
// resumed only if the authority that signed it is still among the authorities.
package cert
