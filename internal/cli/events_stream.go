package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// maxMessage bounds a message of a stream; an event has less than 2 KiB.
const maxMessage = 1 << 20

// message is a message of a stream of server-sent events.
type message struct {
	id    uint64
	hasID bool
	event string
	data  []byte // nil if there was none
	retry time.Duration
}

// messageReader reads server-sent events, as the HTML standard describes them.
type messageReader struct {
	in    *bufio.Reader
	alive func() // called for each line

	comment string // the latest that is not a sign of life
}

// next returns the next message. Errors: io.EOF at the end, also in the middle of a message, which is then left out.
func (r *messageReader) next() (message, error) {
	var m message
	for size := 0; ; {
		line, err := r.line()
		if err != nil {
			return m, err
		}
		r.alive()
		if size += len(line); size > maxMessage {
			return m, fmt.Errorf("%w: a message of the stream has more than %d KiB", apiclient.ErrStranger, maxMessage>>10)
		}
		if len(line) == 0 {
			if m.hasID || m.data != nil || m.retry > 0 {
				return m, nil
			}
			continue
		}
		if err := r.field(&m, line); err != nil {
			return m, err
		}
	}
}

// line returns the next line without its end. A line that the stream ends in is left out.
func (r *messageReader) line() ([]byte, error) {
	var all []byte
	for {
		part, err := r.in.ReadSlice('\n')
		all = append(all, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(all, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			return nil, err
		case len(all) > maxMessage:
			return nil, fmt.Errorf("%w: a line of the stream has more than %d KiB", apiclient.ErrStranger, maxMessage>>10)
		}
	}
}

func (r *messageReader) field(m *message, line []byte) error {
	name, value, _ := strings.Cut(string(line), ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "":
		if value != "still here" {
			r.comment = value
		}
	case "id":
		id, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: a message of the stream has the id %q", apiclient.ErrStranger, terminal.Shorten(value, 40, false))
		}
		m.id, m.hasID = id, true
	case "event":
		m.event = value
	case "data":
		if m.data != nil {
			m.data = append(m.data, '\n')
		}
		m.data = append(m.data, value...)
	case "retry":
		if ms, err := strconv.Atoi(value); err == nil && ms > 0 {
			m.retry = time.Duration(min(ms, 3_600_000)) * time.Millisecond
		}
	}
	return nil
}
