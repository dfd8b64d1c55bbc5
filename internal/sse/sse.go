// Package sse reads server-sent events (HTML Living Standard, 9.2.6, "Interpreting an event stream").
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Message is a server-sent event. Its ID and Event are valid until the next one is read.
type Message struct {
	ID    []byte // the latest one, which may have come with an earlier message
	Event []byte
	Data  []byte // nil if the message only told an id
}

// Decoder reads the messages of a stream. Unlike a browser it also returns those that have an id and no
// data: they tell a place.
type Decoder struct {
	Comment string        // the latest one
	Retry   time.Duration // the pause before coming back that the stream asks for; 0 if it asks for none

	in    *bufio.Reader
	limit int // bytes of a message
	begun bool
	skip  bool // the next byte, if it is LF, belongs to the line before
	line  []byte
	now   Message
	hasID bool
}

// ErrLong is returned by [Decoder.Next] for a message that is too long.
var ErrLong = errors.New("too long")

// NewDecoder returns a decoder of the stream r, whose messages and lines have at most limit
// bytes.
func NewDecoder(r io.Reader, limit int) *Decoder {
	return &Decoder{limit: limit, in: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next message. A message that was cut off by the end of the stream does not
// count.
func (d *Decoder) Next() (Message, error) {
	d.now.Event, d.now.Data, d.hasID = d.now.Event[:0], nil, false
	var data []byte
	for {
		line, err := d.readLine()
		if err != nil {
			return Message{}, err
		}
		if len(line) == 0 {
			if d.now.Data = data; data != nil || d.hasID {
				return d.now, nil
			}
			d.now.Event = d.now.Event[:0]
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "":
			d.Comment = string(value)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms > 0 {
				d.Retry = time.Duration(min(ms, 3_600_000)) * time.Millisecond
			}
		case "event":
			d.now.Event = append(d.now.Event[:0], value...)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				d.now.ID, d.hasID = append(d.now.ID[:0], value...), true
			}
		case "data":
			if data != nil {
				data = append(data, '\n')
			} else {
				data = []byte{}
			}
			if data = append(data, value...); len(data) > d.limit {
				return Message{}, d.tooLong()
			}
		}
	}
}

// Buffered returns how many bytes were read of what comes next.
func (d *Decoder) Buffered() int { return d.in.Buffered() }

// readLine returns a line without its end, which is LF, CR LF or CR. It does not wait for what
// comes after a CR.
func (d *Decoder) readLine() ([]byte, error) {
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
		if len(d.line) > d.limit {
			return nil, d.tooLong()
		}
		if ended {
			return d.withoutMark(), nil
		}
	}
}

// withoutMark returns the line without the byte order mark that a stream may begin with.
func (d *Decoder) withoutMark() []byte {
	if d.begun {
		return d.line
	}
	d.begun = true
	return bytes.TrimPrefix(d.line, []byte("\ufeff"))
}

func (d *Decoder) tooLong() error {
	return fmt.Errorf("a message is %w, more than %d KiB; is this an event stream?", ErrLong, d.limit>>10)
}
