package guard

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/liveness"
)

const (
	// maxSecret is the longest secret, in bytes, maxLine the longest line.
	maxSecret = 256
	maxLine   = 4096
	// mostMistakes is how many mistakes of a file are shown.
	mostMistakes = 10
)

// read reads a file's lines into a table. Its error joins the first mistakes, each with the name of
// the file and its line.
func read(name string, in io.Reader) (*table, error) {
	t := newTable()
	errs, more := []error(nil), 0
	lines := bufio.NewReaderSize(in, maxLine+1)
	for number := 1; ; number++ {
		text, err := line(lines)
		if err != nil && !errors.Is(err, errLong) && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("guard: %s: %w", name, err)
		}
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		t.accepts = t.accepts || string(bytes.TrimSpace(text)) == "# accept"
		wrong := t.readLine(text)
		if errors.Is(err, errLong) {
			wrong = err
		}
		switch {
		case wrong == nil:
		case len(errs) < mostMistakes:
			errs = append(errs, fmt.Errorf("guard: %s:%d: %w", name, number, wrong))
		default:
			more++
		}
		if t.count > maxDevices {
			return nil, fmt.Errorf("guard: %s:%d: there are more than %d devices; write fewer", name, number, maxDevices)
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("guard: %s: and %d more mistakes", name, more))
	}
	return t, errors.Join(errs...)
}

var errLong = fmt.Errorf("the line is longer than %d bytes; an id has at most %d, a secret %d", maxLine, liveness.MaxID, maxSecret)

// line returns the next line, without its end. It holds until the next call. For a line that is too
// long it returns nothing and errLong; with the last line it returns io.EOF.
func line(lines *bufio.Reader) ([]byte, error) {
	text, err := lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimRight(text, "\r\n"), err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = lines.ReadSlice('\n')
	}
	if err == nil || errors.Is(err, io.EOF) { // then the next call returns nothing, and io.EOF
		err = errLong
	}
	return nil, err
}

// readLine adds the device of a line. Its error shows no secret.
func (t *table) readLine(text []byte) error {
	id, rest := word(text)
	if len(id) == 0 {
		return nil
	}
	if err := checkID(id); err != nil {
		return err
	}
	what, rest := word(rest)
	if extra, _ := word(rest); len(extra) > 0 {
		return fmt.Errorf("after device %q stand two words; write the id, sha256:… or secret:…, and then no more than # and a comment", id)
	}
	kind, secret, err := parseSecret(what)
	if err != nil {
		return fmt.Errorf("device %q: %w", id, err)
	}
	if !t.add(id, kind, secret) {
		return fmt.Errorf("device %q stands here for the second time; remove one of the lines", id)
	}
	return nil
}

// word takes the next word off a line; none if a comment or the end follows.
func word(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " \t")
	if len(text) > 0 && text[0] == '#' {
		return nil, nil
	}
	if i := bytes.IndexAny(text, " \t"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, nil
}

// checkID returns what is wrong with an id. Its error shows nothing of a line that holds only a
// secret.
func checkID(id []byte) error {
	switch {
	case bytes.HasPrefix(id, []byte("sha256:")), bytes.HasPrefix(id, []byte("secret:")):
		return errors.New("the line begins with a secret; write the id of the device before it")
	case len(id) > liveness.MaxID:
		return fmt.Errorf("the id has %d bytes; at most %d are allowed", len(id), liveness.MaxID)
	case !utf8.Valid(id):
		return fmt.Errorf("the id %q is not UTF-8; save the file as UTF-8", id)
	case bytes.ContainsFunc(id, unicode.IsSpace):
		return fmt.Errorf("the id %q has a space that is none of ASCII; remove it", id)
	}
	if err := liveness.ValidateID(string(id)); err != nil {
		return fmt.Errorf("the id %q: %s", id, strings.TrimPrefix(err.Error(), liveness.ErrInvalidID.Error()+": "))
	}
	return nil
}

var errSecret = errors.New("what follows the id is neither sha256:… nor secret:…; " +
	`write one of them ("holter devices token" prints the line), or nothing for a device without a secret`)

// parseSecret reads what follows the id.
func parseSecret(text []byte) (kind, []byte, error) {
	if len(text) == 0 {
		return free, nil, nil
	}
	name, value, ok := bytes.Cut(text, []byte(":"))
	switch {
	case ok && string(name) == "sha256":
		sum, err := hex.DecodeString(string(value))
		if err != nil || len(sum) != sha256.Size {
			return 0, nil, errors.New(`sha256: is not followed by 64 hexadecimal digits; write those of the token's SHA-256, as "holter devices token" prints them`)
		}
		if empty := sha256.Sum256(nil); bytes.Equal(sum, empty[:]) {
			return 0, nil, errors.New(`that is the SHA-256 of nothing at all; make a token with "holter devices token"`)
		}
		return digest, sum, nil
	case ok && string(name) == "secret":
		secret, err := parseText(value)
		return plain, secret, err
	}
	return 0, nil, errSecret
}

// parseText reads what follows secret:.
func parseText(value []byte) ([]byte, error) {
	if digits, ok := bytes.CutPrefix(value, []byte("hex:")); ok {
		var err error
		if value, err = hex.DecodeString(string(digits)); err != nil {
			return nil, errors.New("secret:hex: is not followed by pairs of hexadecimal digits; write two for each byte")
		}
	} else if !utf8.Valid(value) {
		return nil, errors.New("the secret is not UTF-8; write secret:hex: and its bytes in hexadecimal")
	}
	if len(value) == 0 || len(value) > maxSecret {
		return nil, fmt.Errorf("the secret has %d bytes; write 1 to %d", len(value), maxSecret)
	}
	return value, nil
}
