package score

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// message is one of a stream of server-sent events. Its fields are good until the next one is read.
type message struct {
	id    []byte // the latest that was told, also with an earlier message
	event []byte
	data  []byte // nil if the message only told an id
}

// decoder reads server-sent events (HTML Living Standard, 9.2.6, "Interpreting an event stream").
// Unlike a browser it also returns messages that have an id and no data: they tell a place.
type decoder struct {
	in    *bufio.Reader
	begun bool
	skip  bool // the next byte, if it is LF, belongs to the line before
	line  []byte
	now   message
	hasID bool
}

const maxMessage = 1 << 20

var errLong = errors.New("a message is longer than 1 MiB; is this an event stream?")

func newDecoder(r io.Reader) *decoder { return &decoder{in: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next message. A message that was cut off by the end of the stream does not
// count.
func (d *decoder) next() (message, error) {
	d.now.event, d.now.data, d.hasID = d.now.event[:0], nil, false
	var data []byte
	for {
		line, err := d.readLine()
		if err != nil {
			return message{}, err
		}
		if len(line) == 0 {
			if d.now.data = data; data != nil || d.hasID {
				return d.now, nil
			}
			d.now.event = d.now.event[:0]
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			d.now.event = append(d.now.event[:0], value...)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				d.now.id, d.hasID = append(d.now.id[:0], value...), true
			}
		case "data":
			if data != nil {
				data = append(data, '\n')
			} else {
				data = []byte{}
			}
			if data = append(data, value...); len(data) > maxMessage {
				return message{}, errLong
			}
		}
	}
}

// readLine returns a line without its end, which is LF, CR LF or CR. It does not wait for what
// comes after a CR.
func (d *decoder) readLine() ([]byte, error) {
	d.line = d.line[:0]
	for {
		if _, err := d.in.Peek(1); err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		there, _ := d.in.Peek(d.in.Buffered()) // cannot fail
		if d.skip && there[0] == '\n' {
			_, _ = d.in.Discard(1) // it is there
			d.skip = false
			continue
		}
		d.skip = false
		end := bytes.IndexByte(there, '\n')
		if end < 0 {
			end = len(there)
		}
		if cr := bytes.IndexByte(there[:end], '\r'); cr >= 0 {
			end, d.skip = cr, true
		}
		d.line = append(d.line, there[:end]...)
		ended := end < len(there)
		_, _ = d.in.Discard(min(end+1, len(there))) // it is there
		if len(d.line) > maxMessage {
			return nil, errLong
		}
		if ended {
			return d.withoutMark(), nil
		}
	}
}

// withoutMark returns the line without the byte order mark that a stream may begin with.
func (d *decoder) withoutMark() []byte {
	if d.begun {
		return d.line
	}
	d.begun = true
	return bytes.TrimPrefix(d.line, []byte("\ufeff"))
}
