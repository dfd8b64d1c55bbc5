package cli

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// sendCommand is holter send.
type sendCommand struct {
	apiFlags
	jsonFlag

	Device  string        `arg:"" help:"Id of the device."`
	Message string        `arg:"" help:"What to send; - reads it from the standard input."`
	Hex     bool          `xor:"bytes" help:"The message is bytes in hexadecimal, written to the device as they are."`
	Base64  bool          `name:"base64" xor:"bytes" help:"The message is bytes in Base64, written to the device as they are."`
	Timeout time.Duration `default:"5s" placeholder:"DURATION" help:"How long to wait until it is written, at most 1m."`
}

// Help is the text below the usage line.
func (*sendCommand) Help() string {
	return `The message is a text of the device's protocol: a line of the line protocol, a command of a tracker, bytes for a serial line. It reaches devices that are connected to the server or to one of its ears; nothing is kept for others. That it is written does not mean that the device has read it. A device over UDP confirms it.

Examples:

    holter send site-7/pump-3 "open the valve"
    holter send 123456789012345 'WHERE#'
    holter send meter-4 --hex "01 03 00 00 00 01 84 0a"
    base64 firmware.bin | holter send site-7/pump-3 --base64 -`
}

// messageBody is what the API takes for a message.
type messageBody struct {
	Text    *string `json:"text,omitempty"`
	Hex     *string `json:"hex,omitempty"`
	Base64  *string `json:"base64,omitempty"`
	Timeout string  `json:"timeout"`
}

// Validate is called once the command line is read.
func (c *sendCommand) Validate(*kong.Context) error {
	if c.Timeout <= 0 || c.Timeout > time.Minute {
		return fmt.Errorf("--timeout: %v is not above 0 and at most 1m", c.Timeout)
	}
	return nil
}

// Run sends the message.
func (c *sendCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return c.run(ctx, api, os.Stdin, out)
}

func (c *sendCommand) run(ctx context.Context, api *apiclient.Client, in io.Reader, out output) error {
	if c.Device == "" {
		return usageError{errors.New("the device id is empty")}
	}
	body, err := c.body(ctx, in)
	if err != nil {
		return err
	}
	api.Timeout += c.Timeout
	err = ask(ctx, api, out, c.JSON, http.MethodPost, pathOf("devices", c.Device)+"/send", body, func(sent *struct {
		Written, Acknowledged bool
		Bytes                 int
		Protocol              string
	},
	) error {
		if !sent.Written {
			return apiclient.ErrStranger
		}
		has := ""
		if sent.Acknowledged {
			has = " and has confirmed it"
		}
		return say(out.stdout, "%s was sent %s (%s)%s", terminal.Printable(c.Device), terminal.Plural(sent.Bytes, "byte", "bytes"), terminal.Printable(sent.Protocol), has)
	})
	return unknownDevice(err, c.Device)
}

// body returns the request. Its errors are mistakes of the user, except for an input that cannot be read.
func (c *sendCommand) body(ctx context.Context, in io.Reader) (*messageBody, error) {
	text := c.Message
	if text == "-" {
		var err error
		if text, err = readMessage(ctx, in); err != nil {
			return nil, err
		}
	}
	body := &messageBody{Timeout: c.Timeout.String()}
	var err error
	switch {
	case c.Hex:
		text = withoutBlanks(text)
		body.Hex = &text
		_, err = hex.DecodeString(text)
	case c.Base64:
		text = withoutBlanks(text)
		body.Base64 = &text
		_, err = base64.StdEncoding.DecodeString(text)
	case strings.ContainsRune(text, utf8.RuneError): // also what kong makes of other bytes
		err = errors.New("the text is not UTF-8; send bytes with --hex or --base64")
	default:
		body.Text = &text
	}
	switch {
	case err != nil:
		return nil, usageError{fmt.Errorf("the message: %w", err)}
	case text == "":
		return nil, usageError{errors.New("the message is empty")}
	}
	return body, nil
}

func withoutBlanks(text string) string { return strings.Join(strings.Fields(text), "") }

// maxTyped is longer than the longest message in any notation, in bytes.
const maxTyped = 256 << 10

// readMessage reads a message without its last line end, until ctx is done.
func readMessage(ctx context.Context, in io.Reader) (string, error) {
	return orDone(ctx, func() (string, error) {
		text, err := io.ReadAll(io.LimitReader(in, maxTyped+1))
		switch {
		case err != nil:
			return "", fmt.Errorf("read the message: %w", err)
		case len(text) > maxTyped:
			return "", usageError{fmt.Errorf("the message is longer than %d KiB", maxTyped>>10)}
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
	})
}
