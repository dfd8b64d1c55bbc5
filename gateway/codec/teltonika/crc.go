package teltonika

import "github.com/holter-iot/holter/gateway/codec/internal/crc16"

var crcTable = crc16.New(0xa001) //nolint:gochecknoglobals // a table that nobody changes

// checksum is CRC-16/ARC, which Teltonika calls CRC-16/IBM.
func checksum(data []byte) uint16 { return crcTable.Update(0, data) }
