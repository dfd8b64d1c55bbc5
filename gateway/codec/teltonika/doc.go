// Package teltonika is the protocol of Teltonika's vehicle trackers, over TCP and over UDP, as
// "Teltonika Data Sending Protocols"
// (https://wiki.teltonika-gps.com/view/Teltonika_Data_Sending_Protocols) describes it. Numbers are
// big-endian.
//
// Over TCP a device logs in with its IMEI and then sends packets of records:
//
//	device                                                        gateway
//	000F <IMEI>                    login                          01, or 00 if it is refused
//	00000000 <length u32> <data> <CRC u32>                        (by the codec, which is the first byte of the data)
//	  08, 8E, 10  <n u8> <records> <n u8>  Codec 8, 8E, 16        <n u32>, the number of accepted records
//	  0C to 0F    <n u8> <text> <n u8>     Codec 12 to 15         (nothing: these are what the device says to a command)
//	FF                             keep-alive                     (nothing)
//
// Each packet and each keep-alive is a heartbeat; the records are not read. A device keeps its
// records and sends them again if the answer is another number than theirs, so a packet whose
// checksum is wrong, which is no heartbeat, is answered by 00000000, and so is one that the gateway
// does not want now. Packets of other codecs are taken and answered like those of Codec 8.
//
// Over UDP each packet names its device and has no checksum but that of UDP; a datagram may hold
// several:
//
//	device                                                        gateway
//	<length u16> <id u16> 01 <AVL id u8> 000F <IMEI> <data>       0005 <id u16> 01 <AVL id u8> <n u8>
//
// A device that uses UDP also takes the commands below, as they are sent over TCP. But it answers
// them, as it sends its keep-alives, in a datagram that does not name it
// (https://github.com/halacs/haltonika, a server for the FMB920). Such a datagram is dropped, so
// there is no question for a sign of life over UDP. Nor does a packet prove its address, to which
// the gateway therefore sends no commands.
//
// What is unusual and tolerated is counted by these names:
//
//	count   the two record counts of a packet differ; the first one is answered
//	crc     the checksum is wrong; not a heartbeat
//	early   a keep-alive before the login; not a heartbeat
//	imei    the IMEI has 8 to 17 digits, not 15
//
// The question for a sign of life is the command getver of Codec 12, which the device answers with
// its version and IMEI (https://wiki.teltonika-gps.com/view/SMS/GPRS_command_-_getver); it changes
// nothing. Text that is sent to a device is a command of Codec 12, too: what could be sent by SMS,
// without login and password. The protocol cannot tell the device how often to send, and has no
// words for tokens, sleep and goodbye.
//
// The codec of a connection has 1 byte.
package teltonika
