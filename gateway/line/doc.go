// Package line is the line protocol: a device protocol simple enough to be typed into netcat. It knows bytes only, no sockets and no
// clocks, and its functions are safe for concurrent use.
//
// A message is one line, ended by \n or \r\n. Words are separated by spaces; commands may be written in any case.
//
//	device                                       gateway
//	HELLO <id> [token] [ttl=60s] [epoch=n]       OK <epoch> ttl=<seconds>
//	PING [seq]                                   PONG [seq]
//	TTL <duration>                               TTL <duration>
//	SLEEP <duration>                             OK sleep=<seconds>
//	FAIL <text>                                  OK
//	BYE                                          BYE
//	anything else, also an empty line            (nothing)
//
// Each line after HELLO is a heartbeat. A duration is a number of seconds, or a number with a unit: 90, 90s, 1.5m, 1h30m. What is wrong is
// answered by "ERR <code> <explanation>"; the codes are the constants of [Code]. When the gateway ends a connection, it says "BYE <why>".
package line
