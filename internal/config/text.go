package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/internal/credential"
	"github.com/holter-iot/holter/internal/strictyaml"
)

func parseShare(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%s is not a share; allowed are 0 (off) to 1, as in 0.3 for 30 %%", strictyaml.Quote(text))
	}
	return f, nil
}

// oneOf returns the text if it is one of some words; what names them in the message about any other.
func oneOf[T ~string](text, what string, words ...T) (T, error) {
	if slices.Contains(words, T(text)) {
		return T(text), nil
	}
	return "", fmt.Errorf("%s is not %s", strictyaml.Quote(text), what)
}

func parseLevel(text string) (level slog.Level, err error) {
	if _, err = oneOf(text, "a log level; allowed are: debug, info, warn, error", "debug", "info", "warn", "error"); err == nil {
		err = level.UnmarshalText([]byte(text))
	}
	return level, err
}

func parseFormat(text string) (LogFormat, error) {
	return oneOf(text, "a log format; allowed are: auto, text, json", LogAuto, LogText, LogJSON)
}

// on is the opposite of off.
const on = "on"

func parseConsole(text string) (string, error) {
	return oneOf(text, "allowed; write on or off", on, off)
}

func parseData(text string) (string, error) {
	if text == "" {
		return "", errors.New("the directory is empty; write a path, as in ./holter-data")
	}
	if strings.ContainsRune(text, 0) {
		return "", errors.New("the directory contains a NUL byte")
	}
	return text, nil
}

// parseFile returns the name of a file, which may be a credential.
func parseFile(text string) (string, error) {
	name, err := credential.File(text)
	if err != nil {
		return "", err
	}
	return strictyaml.FileName(name)
}

// parsePassword returns a password of any form.
func parsePassword(text string) (Secret, error) {
	text, err := credential.Read(text)
	return NewSecret(text), err
}

// passwordInURL finds a password that is a credential.
var passwordInURL = regexp.MustCompile(`^([a-z]+://[^/:@]*):(credential:[^/@]*)@`)

// readURL returns the URL of a database, which is a credential, or whose password is one.
func readURL(text string) (string, error) {
	text, err := credential.Read(text)
	if err != nil {
		return "", err
	}
	at := passwordInURL.FindStringSubmatchIndex(text)
	if at == nil {
		return text, nil
	}
	password, err := credential.Read(text[at[4]:at[5]])
	if err != nil {
		return "", err
	}
	return text[:at[3]] + url.UserPassword("", password).String() + text[at[5]:], nil
}

// parseDatabase looks no further than the scheme; package store knows the
// rest. It never shows the URL in its error: there may be a password in it.
func parseDatabase(text string) (Secret, error) {
	text, err := readURL(text)
	if err != nil {
		return Secret{}, err
	}
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case !ok || rest == "":
		return Secret{}, errors.New("not the URL of a database; write sqlite:FILE, postgres://USER:PASSWORD@HOST/NAME or mysql://USER:PASSWORD@HOST/NAME")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql" && scheme != "mysql" && scheme != "mariadb":
		return Secret{}, fmt.Errorf("databases of the kind %s are not known; known are sqlite, postgres and mysql", strictyaml.Quote(scheme))
	}
	return NewSecret(text), nil
}

// parseToken never shows the token in its error.
func parseToken(text string) (Secret, error) {
	const most = 256
	notVisible := func(c rune) bool { return c <= ' ' || c > '~' }
	text, err := credential.Read(text)
	switch {
	case err != nil:
		return Secret{}, err
	case text == "":
		return Secret{}, errors.New("the token is empty; write a secret, or leave the option out")
	case len(text) > most:
		return Secret{}, fmt.Errorf("the token is longer than %d characters", most)
	case strings.ContainsFunc(text, notVisible):
		return Secret{}, errors.New("the token may hold only visible ASCII characters and no spaces")
	}
	return NewSecret(text), nil
}
