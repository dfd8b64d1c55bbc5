// Package dtu serves DTUs: modems and serial servers that carry the bytes of a serial line, often
// Modbus, over TCP. What they carry says neither who they are nor that they live, so that they send
// two packets of their own, which their owner writes into their settings:
//
//   - the registration packet, when the connection begins, or in front of each packet of data, or both;
//   - the network heartbeat packet, whenever nothing else was sent for some seconds.
//
// The gateway hears the same: the registration is the hello, everything after it is a heartbeat.
//
//	device                                          gateway
//	registration packet                             (nothing)
//	heartbeat packet                                (nothing)
//	[registration packet] bytes of the serial line  (nothing)
//	                                                bytes for the serial line: the poll, or what somebody sends
//
// # The registration
//
// [Options] say by a regular expression what a registration looks like; its group, or all of it, is
// the device's id. Some that the makers' manuals show:
//
//	packet                                          expression
//	LOGIN:1001                                      LOGIN:(\d{4})             USR-GPRS232-701
//	355837089512343 00 01 02 03, the IMEI and data  (\d{15})\x00\x01\x02\x03  HF2411
//	the IMEI alone, or behind IMEI:                 \d{15}                    RLTK421 and others
//	the ICCID of the SIM card                       89[0-9A-Fa-f]{17,18}      RLTK421 and others
//	78 56 34 12, a phone number and an address      ([0-9a-f]{8})(?:3\d){11}00[0-9a-f]{8}00 with Hex  Four-Faith
//
// Many modems put IMEI: (in either case) before their number. It is taken, and is no part of the id
// unless the expression asks for it, as in (IMEI:\d{15}). An expression that begins with ^ forbids
// it.
//
// TCP does not keep packets together, so the expression also has to say where the registration
// ends. It is taken as soon as it matches what came in. A registration may arrive in pieces; but of
// one that may have any length, such as \d+, the first piece would be taken for all of it. So write
// \d{15}, not \d+, or let it end with something, as in (\w+)\r\n. If that cannot be: DTUs send it
// in one segment, and pieces are rare. An expression that ends with $ is refused by [New].
//
// A connection that begins with something else is closed as soon as that shows, after 128 bytes at
// most. Where several protocols share a port the registration has 64 bytes at most, and its
// protocol should come behind those of devices that speak binary, for an expression is easily
// satisfied, and before line, which takes every line of text.
//
// # What this cannot do
//
// Nobody proves who he is: who knows a registration can send it. Use it on private networks, or
// with a list of allowed devices.
//
// A DTU may send its heartbeats though the machine on its serial line is dead. If that matters set
// Options.Poll to a question of the machine's own protocol, and no heartbeat in the DTU. For Modbus
// a read of one register will do, 01 03 00 00 00 01 84 0a for unit 1 behind a serial line, or 00 01
// 00 00 00 06 01 03 00 00 00 01 for Modbus/TCP (MODBUS Application Protocol Specification V1.1b3,
// 6.3; MODBUS Messaging on TCP/IP Implementation Guide V1.0b, 3.1). An exception is an answer, too.
//
// A connection needs 32 bytes here, and with the Prefix mode its registration.
package dtu
