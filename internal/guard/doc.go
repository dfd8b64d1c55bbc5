// Package guard admits the devices that a file lists: [File] is a gateway.Guard.
//
// # The file
//
// A line for each device, in UTF-8, words separated by spaces or tabs:
//
//	# pumps of the north field                  a comment: a word that begins with #, up to the end of the line
//	13912344329                                 needs no secret
//	pump-1 sha256:<64 hexadecimal digits>       shows a token, whose SHA-256 this is
//	pump-2 secret:correct-horse                 shows this token, or proves by an HMAC-SHA256 challenge that it knows it
//	pump-3 secret:hex:0b6e…                     the same, for a secret that is no text
//
// An id is listed once, has 1 to 128 bytes without spaces and control characters, and does not
// begin with #. A secret has 1 to 256 bytes; the text of one holds no spaces and does not begin
// with hex:. Prefer sha256 where the device does not need the challenge: then the file gives no
// token away, if the tokens cannot be guessed; "holter devices token" makes such.
//
// The file is read again when it has changed and was not written to for a second, or when another has
// taken its place. A device whose line has gone, or has another secret, loses its connection within 5
// s, and is kept. A file that lists none any more, or less than half as many as before, is taken for a
// mistake, and logged: the list from before stays in effect until the process starts anew, or until
// the file has a line
//
//	# accept
//
// A device without a secret is admitted whatever token it shows: list it so if its protocol has
// none (GT06, Teltonika, DTU), on networks that you trust. A device that has proved its id by a
// certificate must be listed, too, with or without a secret.
//
// # Registration
//
// A device of JT/T 808 registers, is given a token, and shows that from then on. The token is the
// HMAC-SHA256 (RFC 2104) of the device's id under a key that is kept in a file, so that it is the
// same after a restart; 32 hexadecimal digits of it. Only a device without a secret is given one:
// registration checks nothing, and would be a way around the secret of the others, which have to
// know their token.
//
// Such a token proves nothing, as anybody can ask for it, and is not compared: devices that come
// from another platform show the one that they have from there, and not all of them register anew
// when it is refused.
//
// # Cost
//
// A table holds for each device its id, its secret and some 12 bytes, without pointers: 500,000
// devices with ids of 12 bytes and SHA-256 take 29 MiB, twice that while the file is read again,
// which takes 0.4 s of a processor. A file has at most 256 MiB and 10,000,000 devices. A look-up
// takes no lock, no memory and, with the hash of the token, some 0.8 µs.
package guard
