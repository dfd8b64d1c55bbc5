package packet

import (
	"bytes"
	"unicode/utf8"
)

// maxText is the size in bytes of the longest string (MQTT 5, 1.5.4).
const maxText = 65_535

// validText reports whether s may be a string: UTF-8 without surrogates and NUL (MQTT 5, 1.5.4).
func validText(s []byte) bool {
	return utf8.Valid(s) && bytes.IndexByte(s, 0) < 0
}
