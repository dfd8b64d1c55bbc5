package cli

import (
	"fmt"
	"strings"

	"github.com/holter-iot/holter/gateway/guard"
	"github.com/holter-iot/holter/internal/terminal"
)

// deviceTokenCommand makes a line for the file of devices.
type deviceTokenCommand struct {
	ID   string `arg:"" help:"Id of the device."`
	HMAC bool   `name:"hmac" help:"Let the device prove that it knows the token instead of sending it (HELLO ID auth=hmac). The file then holds the token itself."`
	JSON bool   `name:"json" help:"As a JSON object on the output: id, token, line."`
}

// Help is the text below the usage line.
func (*deviceTokenCommand) Help() string {
	return `It makes a token of 256 random bits. The line goes to the output, the token, which is not shown again, to the standard error. The running server notices that the file (devices_file, --devices-file) has changed.

Examples:

    holter device-token pump-3 >> /etc/holter/devices

    # the device is told its token by a script
    holter device-token pump-3 --json`
}

// Run makes a token and prints it and its line.
func (c *deviceTokenCommand) Run(out output) error {
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
	_, err = fmt.Fprintf(out.stderr, "\nThat is the line for the file of devices. The token, which is not shown again:\n\n    %s\n\nIn the line protocol: %s\n", token, say)
	return err
}
