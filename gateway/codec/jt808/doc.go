// Package jt808 is JT/T 808, the protocol of vehicle terminals and trackers in China and of many
// trackers elsewhere, as a codec of the gateway: in its editions of 2011, 2013 and 2019, on one
// port. It understands what a gateway must know of a device, that it lives, and no positions. It
// knows bytes only, no sockets and no clocks; what is exported is safe for concurrent use, but for
// the codecs.
//
// A frame is 7E, a header, a body, the XOR of both, and 7E; a 7E or 7D in between is escaped. The
// header names the message, the device's phone number and a serial number; bit 14 of its attributes
// says that it is one of 2019. The id of a device is its phone number without zeros on the left.
// Each message is a heartbeat:
//
//	device                                       gateway
//	0100 register                                8100 result, code
//	0102 authenticate: the code                  8001 result
//	0002 heartbeat (also 0506, or with a body)   8001 result
//	0200 location, 0704 and 0210 locations       8001 result
//	0900 data, 1007 time zone, 6006 text         8001 result
//	5501, 5502 location of a lock                4401 result, if the device asks for it
//	0003 log out                                 8001 result, and the end of the connection
//	0004 query the time                          8004 time
//	0001 and other answers                       (nothing)
//	(ID,1,001,BASE,2,TIME)                       (ID,1,001,BASE,2,20241003155106)
//	(ID,...) and anything else                   (nothing)
//	anything else                                8001 result 3
//	0201 location                                8201 query the location: a probe
//	0001 answer                                  8300 text message
//
// The code that a registration is answered with is the token that the gateway made for the device,
// or, if it wants none, the phone number. The standard has the platform answer each message that a
// device sends by itself, and the device send it again otherwise. Result 3 says that the platform
// does not support it (JT/T 808-2013, 8.2): a 0 for a picture or a driver's record would make the
// device delete what the gateway did not keep. Positions are answered with 0 all the same, or
// devices would believe their platform broken. So are data of what is connected to a device, its
// time zone and its texts, which some trackers send again until they get a 0. What answers a
// message of the platform is not answered.
//
// A message whose phone number is 0 is refused: many devices have that number until somebody sets
// theirs, so all of them would be one device.
//
// Electronic locks send two messages of their own. Their header has a serial number of one byte;
// bit 15 of its attributes asks for an answer, and the bits of the encryption mean something else.
// Locks also send sentences in parentheses, whose first field is their id.
//
// Some OBD trackers frame the same messages otherwise: E7 at both ends, E6 01 and E6 02 for E6 and
// E7, and 3E 01 and 3E 02 for 3E and 3D. They are answered in kind.
//
// Each fragment of a message is a heartbeat, and is answered by itself (JT/T 808-2013, 7.12);
// fragments are not put together. A body that is encrypted is not read: an authentication that is
// encrypted shows no token. Devices that deviate from the standard are understood as far as is
// safe, and what was odd about a message is told by the constants that begin with Odd. There is no
// goodbye, no sleep, and no way for a device to say its timeout.
package jt808
