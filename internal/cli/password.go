package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/mqtt/access"
)

// passwordCommand creates a line for the file of the broker's users.
type passwordCommand struct {
	Name string `arg:"" help:"Name of the user."`
}

// Help is the text below the usage line.
func (*passwordCommand) Help() string {
	return `It asks for the password twice and prints the line, which holds only its hash. If the input is not a terminal, the password is its first line. A running server reads the file again when it changes.

Examples:

    holter password pump-3 >> /etc/holter/users

    # in a script
    pwgen 32 1 | holter password pump-3 >> /etc/holter/users`
}

// Run asks for a password and prints the line.
func (c *passwordCommand) Run(ctx context.Context, out output) error {
	return c.run(ctx, os.Stdin, out)
}

func (c *passwordCommand) run(ctx context.Context, in *os.File, out output) error {
	if c.Name == "" || len(c.Name) > 1024 || strings.ContainsFunc(c.Name, func(r rune) bool { return r == ':' || unicode.IsControl(r) }) || strings.HasPrefix(c.Name, "#") {
		return usageError{errors.New("a name has 1 to 1024 bytes, does not begin with # and holds neither : nor control characters")}
	}
	password, err := askPassword(ctx, in, out.stderr)
	if err != nil {
		return err
	}
	hash, err := access.HashPassword(password)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.stdout, "%s:%s\n", c.Name, hash)
	return err
}

// maxPassword limits the input, in bytes.
const maxPassword = 1024

// askPassword reads a password: twice from a terminal, once from anything else.
func askPassword(ctx context.Context, in *os.File, prompts io.Writer) (string, error) {
	lines := bufio.NewReader(io.LimitReader(in, 4*maxPassword))
	if !terminal.IsTerminal(in) {
		return checkedPassword(readPassword(lines))
	}
	show, err := hideInput(in)
	if err != nil {
		_, _ = fmt.Fprintln(prompts, "The password will be visible:", err)
	}
	defer show()
	ask := func(prompt string) (string, error) {
		_, _ = io.WriteString(prompts, prompt)
		text, err := orDone(ctx, func() (string, error) { return readPassword(lines) })
		_, _ = io.WriteString(prompts, "\n")
		return text, err
	}
	first, err := checkedPassword(ask("Password: "))
	if err != nil {
		return "", err
	}
	second, err := ask("Once more: ")
	if err == nil && first != second {
		err = errors.New("the two are not the same; nothing was made")
	}
	return first, err
}

// orDone returns what read returns, or the error of ctx if that is done before. Then it leaves the
// reading goroutine behind, because the program ends.
func orDone(ctx context.Context, read func() (string, error)) (text string, err error) {
	done := make(chan struct{})
	var got string
	var failed error
	go func() {
		defer close(done)
		got, failed = read()
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func readPassword(lines *bufio.Reader) (string, error) {
	text, err := lines.ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || text == "") {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(text, "\r\n"), nil
}

func checkedPassword(text string, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", usageError{errors.New("the password is empty")}
	case len(text) > maxPassword:
		return "", usageError{fmt.Errorf("the password is longer than %d bytes", maxPassword)}
	}
	return text, nil
}
