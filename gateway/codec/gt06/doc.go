// Package gt06 is the protocol of the GT06 tracker and its many descendants by Concox, Jimi and
// others, as their documents "GPS Tracker Communication Protocol" describe it; where these
// disagree, as the decoder of Traccar does. Numbers are big-endian.
//
// A frame is 7878 and a length of one byte, or 7979 and a length of two; the type, the content, a
// serial number and a checksum, which the length counts; and 0D0A:
//
//	7878 <length u8> <type u8> <content> <serial u16> <CRC u16> 0D0A
//	7979 <length u16> ...
//
// An answer is a frame of the same type and serial number without content:
//
//	device                                                        gateway
//	01  login: IMEI as 16 BCD digits, the first of them unused    7878 05 01 <serial> <CRC> 0D0A
//	13, 23, 36  heartbeat                                         the same with its type
//	16, 19, 26, 27, 95, A3, A4, A5  alarm                         the same with its type
//	10, 11, 12, 22, 28, A0 and others  position                   the same with its type
//	70  list of positions, cells and sensors                      the same with its type, always from 7878
//	8A  what time is it?                                          7878 0B 8A <y m d h m s, UTC> <serial> <CRC> 0D0A
//	2A  what is the address of a position?                        7979 0015 97 0B 00000000 NA&&NA&&0## <serial> <CRC> 0D0A
//	15, 21  what the device says to a command                     (nothing)
//	all others: satellites, state                                 (nothing)
//
// Each frame but the login is a heartbeat. Before the login nobody knows whose it is: it is neither a
// heartbeat nor answered. A refused login is not answered. The documents of Concox
// want no answer to positions, but take one; Traccar answers them, too, since trackers of other
// makers connect again if nothing comes. The gateway knows no addresses: NA says that there is none.
//
// What is unusual and tolerated is counted by these names:
//
//	crc          the checksum is wrong; not a heartbeat
//	crc-missing  the frame has no checksum, and Lenient takes it
//	early        a frame before the login; not a heartbeat
//	crc-wrong    the checksum is wrong, and Lenient takes the frame
//	garbage      bytes between frames; not a heartbeat
//	length       the length is not that of the frame, which ends at the next 0D0A and has a right checksum there
//	short        a frame too short for a serial number and a checksum; not a heartbeat
//
// The question for a sign of life is the command STATUS#, which lists the state of battery, network
// and position; it changes nothing, and a device that does not know it says so, which is a sign of
// life as well. Text that is sent to a device is a command of type 80: what could be sent by SMS.
// The protocol cannot tell the device how often to send, and has no words for tokens, sleep and
// goodbye.
//
// # Clones
//
// [Protocol.Lenient] is for clones of the GT06. It takes frames whose checksum is wrong, and answers
// them as above with a right one. The login shows whether a device sends a checksum at all: behind
// the IMEI a frame has a type and a time zone, or nothing, and then the serial number.
//
// Small trackers, of ZhongXun for instance, have neither serial number nor checksum. The login ends
// behind the IMEI, or one byte later. Their length is not that of the frame, so each ends at the
// first 0D0A. They are answered in kind:
//
//	device                                                        gateway
//	7878 <any> 01 <IMEI> [version] 0D0A                           7878 01 01 0D0A
//	7878 <any> <type of a heartbeat or alarm> <content> 0D0A      7878 01 <type> 0D0A
//	7878 <any> <type of a position> <time> <content> 0D0A         7878 00 <type> <time> 0D0A
//
// Without checksums nothing tells a frame from garbage that looks like one, so that a lenient port
// should be one for clones alone.
//
// The codec of a connection has 18 bytes.
package gt06
