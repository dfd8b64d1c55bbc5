// Package line is the line protocol: a device protocol simple enough to be typed into netcat.
//
// A message is one line, ended by \n or \r\n. Words are separated by spaces; commands may be
// written in any case.
//
//	device                                                   gateway
//	HELLO <id> [token] [ttl=60s] [epoch=n]                   OK <epoch> ttl=<seconds>
//	HELLO <id> auth=hmac [ttl=60s] [epoch=n]                 CHALLENGE <nonce>
//	PROOF <hex of HMAC-SHA256(secret, nonce)>                OK <epoch> ttl=<seconds>
//	PING [seq]                                               PONG [seq]
//	TTL <duration>                                           TTL <seconds>
//	SLEEP <duration>                                         OK sleep=<seconds>
//	FAIL <text>                                              OK
//	ACK <number>                                             (nothing)
//	BYE                                                      BYE
//	anything else, also an empty line                        (nothing)
//
// Each line after HELLO is a heartbeat. A duration is a number of seconds, or a number with a unit:
// 90, 90s, 1.5m, 1h30m; it is from 1 ms to 366 days. The nonce is text, and it is this text that
// the proof signs: printf %s NONCE | openssl dgst -sha256 -hmac SECRET.
//
// What is wrong is answered by "ERR <code> <explanation>"; the codes are those of package codec.
// After "ERR busy" to anything but the first HELLO of a connection that is then closed, heartbeats
// count, and the device says it again in a while. The gateway may also say, at any time,
//
//	PING?                   answer, with PING or anything else
//	MSG <text>              a message passed on by an operator
//	BYE <why>               the connection ends
//
// In datagrams, the first line of each is a HELLO, and the last needs no end. What the gateway says may
// be lost there, so it numbers its messages, and repeats each until it is acknowledged:
//
//	MSG #<number> <text>
//
// The numbers rise. The device does what the text says if the number is greater than that of any
// message before, and answers with ACK and the greatest number it has had in any case. One that
// starts anew begins with 0.
package line
