// Package frame is a binary protocol of frames with a length, for those who design a device of
// their own. This comment is its specification, version 1. A heartbeat has 4 bytes, or 8 if it is
// to be answered; an implementation fits on a page of C.
//
// # Frames
//
// Both sides send frames, one after the other. Numbers are unsigned and big-endian: the highest
// byte comes first.
//
//	byte 0     0xA5
//	byte 1     the version in the high four bits, 1; the type in the low four bits
//	byte 2, 3  the length of the body, in bytes: 0 to 4096
//	byte 4 …   the body
//
// There is no checksum: TCP and UDP have one. There is nothing to escape, and nothing to search
// for: a frame begins where the one before ends, and if there is no 0xA5 the gateway closes the
// connection.
//
//	type           body from the device    answer of the gateway        body
//	1  hello       fields                  1  hello                     fields
//	2  beat        nothing                 (none)
//	2  beat        u32                     2  beat                      the same u32
//	3  pace        u32 ttl, u32 interval   3  pace                      u32 ttl, u32 interval that hold now
//	4  sleep       u32 duration            4  sleep                     u32 duration that is granted
//	5  fail        text                    5  fail                      nothing
//	6  bye         nothing                 6  bye                       nothing; the gateway closes the connection
//	7  challenge   fields                  7  challenge                 16 to 64 random bytes
//	8  proof       32 bytes                1  hello                     fields
//	9  data        anything                (none)
//	11 message     u64 number              (none)
//
// Times are in milliseconds, at most 49 days. The gateway sends some frames without being asked:
//
//	6  bye         text: why it closes the connection
//	9  data        what somebody wants to tell the device
//	10 probe       nothing: answer at once with any heartbeat
//	11 message     u64 number, data: over UDP, in place of 9, see below
//	15 error       u8 code, text: instead of an answer
//
// Every frame of a device after its hello is a heartbeat, also data and types that are not listed.
// A device that hears nothing from time to time cannot know whether it is heard: then number the
// beats, and connect again if an answer is missing.
//
// # Fields
//
// Fields say who the device is and what it needs. Each has a number (one byte), a length (one byte)
// and a value; their order does not matter, and those with an unknown number are skipped.
//
//	1  id        text: 1 to 128 bytes of UTF-8, without spaces and control characters
//	2  token     bytes: the device's secret, if the gateway wants one; not in a challenge
//	3  ttl       u32: after this silence the device is offline; 0, or no such field, for the gateway's own
//	4  interval  u32: how often the device sends heartbeats; 0, or no such field, if that does not matter
//	5  epoch     u64: the number of the device's start, so that what is left of an earlier one cannot replace it; 0, or no such field, if
//	             the gateway shall count
//
// The answer to a hello has ttl, epoch and, if one holds, interval.
//
// # Secrets
//
// A device that does not want to send its secret sends a challenge in place of the hello. It gets
// random bytes, and proves that it knows the secret by their HMAC-SHA256 (RFC 2104), keyed with the
// secret. Everything else travels as it is: use TLS where that matters.
//
// # Errors
//
// The codes of errors are 1 bad-message, 2 bad-hello, 3 bad-id, 4 bad-ttl, 5 bad-epoch, 6
// bad-sleep, 7 hello-first, 8 hello-again, 9 stale-epoch, 10 unauthorized, 11 full, 12 busy, 13
// too-long, 14 duplicate, 15 not-spoken, 16 noise, 17 timeout; 0 is any other. The text says what
// is wrong and what to do. [codec.Code] says which of them end the connection; after the others the
// device goes on.
//
// # Versions
//
// The first two bytes of a frame and the frame of an error are the same in all versions. A device
// sends the version it was made for. A gateway that does not speak it answers with the error 15 in
// a frame of version 1, whose text names the versions that it speaks, and closes the connection.
// Within a version bodies may become longer, fields and types may be added: both sides ignore what
// they do not know.
//
// # Datagrams
//
// Over UDP each datagram begins with a hello, since its sender may have a new address each time,
// and holds whole frames only. A secret is sent as the token of each hello; there is no challenge.
// Until a token was accepted an answer is not longer than its question: the hello of the gateway
// then lacks the fields that do not fit, and an error its text.
//
// What the gateway sends may be lost, so it numbers what somebody wants to tell the device, and repeats
// each message until it is acknowledged. The numbers rise. The device takes a message if its number
// is greater than that of any before, and answers with the greatest number it has had in any case: a
// datagram with its hello and a frame of type 11. One that starts anew begins with 0.
//
// The file testdata/conversation.txt holds a conversation byte by byte, to test an implementation
// with. A connection needs no memory here beyond what is left of an incomplete frame. All is safe
// for concurrent use.
package frame
