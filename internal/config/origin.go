package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// parseOrigins reads origins that are separated by commas.
func parseOrigins(text string) (all []string, err error) {
	for one := range strings.SplitSeq(text, ",") {
		origin, err := parseOrigin(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		all = append(all, origin)
	}
	return all, nil
}

// parseOrigin checks an origin, which must be what browsers send.
func parseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || text != u.Scheme+"://"+u.Host:
		return "", fmt.Errorf("%s is not an origin; write https://HOST or https://HOST:PORT, and nothing behind it", strictyaml.Quote(text))
	case text != strings.ToLower(text):
		return "", fmt.Errorf("%s has capital letters, which browsers do not send; write %s", strictyaml.Quote(text), strings.ToLower(text))
	case u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443":
		return "", fmt.Errorf("%s has the port that browsers leave out; write %s", strictyaml.Quote(text), u.Scheme+"://"+u.Hostname())
	}
	return text, nil
}
