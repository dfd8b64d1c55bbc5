package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/holter-iot/holter/internal/guard"
	"github.com/holter-iot/holter/internal/terminal"
)

// deviceTokenCommand creates a token for a device.
type deviceTokenCommand struct {
	jsonFlag

	ID   string `arg:"" help:"Id of the device."`
	HMAC bool   `name:"hmac" help:"The device proves that it knows the token instead of sending it (HELLO ID auth=hmac). The file then holds the token itself."`
}

// Help is the text below the usage line.
func (*deviceTokenCommand) Help() string {
	return `It creates a token of 256 random bits. The line for the file of devices goes to the standard output, the token to the standard error; it is not shown again. A running server reads the file (devices_file, --devices-file) again when it changes.

Examples:

    holter devices token pump-3 >> /etc/holter/devices

    # for a script that gives the device its token
    holter devices token pump-3 --json`
}

// Run creates the token, and prints it and its line.
func (c *deviceTokenCommand) Run(_ context.Context, out output) error {
	token := guard.NewToken()
	line, err := guard.Line(c.ID, token, c.HMAC)
	if err != nil {
		return usageError{fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "guard: "))}
	}
	if c.JSON {
		return terminal.EncodeJSON(out.stdout, struct {
			ID    string `json:"id"`
			Token string `json:"token"`
			Line  string `json:"line"`
		}{c.ID, token, line})
	}
	if _, err := fmt.Fprintln(out.stdout, line); err != nil {
		return err
	}
	say := "HELLO " + c.ID + " " + token
	if c.HMAC {
		say = "HELLO " + c.ID + " auth=hmac"
	}
	_, err = fmt.Fprintf(out.stderr, "\nThis is the line for the file of devices. The token, which is not shown again:\n\n    %s\n\nIn the line protocol: %s\n", token, say)
	return err
}
