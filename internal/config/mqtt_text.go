package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

func parseAddressOrOff(text string) (string, error) {
	switch text {
	case off:
		return text, nil
	case "false", "no", "none":
		return "", fmt.Errorf("%s is not an address; write HOST:PORT, or off", strictyaml.Quote(text))
	}
	return parseAddress(text)
}

func parseAnonymous(text string) (Anonymous, error) {
	return oneOf(text, "one of: loopback (clients on this machine), never, anyone", AnonymousLoopback, AnonymousNever, AnonymousAnyone)
}

// parseRoute reads how far messages go; cluster is true.
func parseRoute(text string) (bool, error) {
	to, err := oneOf(text, "one of: local (the clients of this process), cluster (those of the judge and of all ears)", "local", "cluster")
	return to == "cluster", err
}

// ParsePreset checks the name of a preset.
func ParsePreset(text string) (string, error) {
	if known := presets.Names(); !slices.Contains(known, text) {
		return "", fmt.Errorf("there is no preset %s%s (there are: %s)", strictyaml.Quote(text), strictyaml.DidYouMean(text, known), strings.Join(known, ", "))
	}
	return text, nil
}

// brokerPorts returns the schemes of a broker's URL and their usual ports.
func brokerPorts() map[string]string {
	return map[string]string{
		"mqtt": "1883", "tcp": "1883", "mqtts": "8883", "ssl": "8883", "tls": "8883", "ws": "80", "wss": "443",
	}
}

// encrypted reports whether a scheme of a broker's URL means TLS.
func encrypted(scheme string) bool {
	return slices.Contains([]string{"mqtts", "ssl", "tls", "wss"}, scheme)
}

// parseBrokerURL checks SCHEME://HOST[:PORT][/PATH] and adds what is left out.
// It shows no URL in which there is a password.
func parseBrokerURL(text string) (string, error) {
	if text == "" {
		return "", errors.New("the url is empty; write one, as in mqtt://broker.example:1883")
	}
	if strings.Contains(text, "@") {
		return "", errors.New("name and password are not written into the url: " +
			"give the name with username (--username), the password with password_file (--password-file) or in HOLTER_MQTT_PASSWORD")
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "mqtt", text
	}
	scheme = strings.ToLower(scheme)
	port, known := brokerPorts()[scheme]
	if !known {
		return "", fmt.Errorf("%s has the unknown scheme %s; known are mqtt (or tcp), mqtts (or ssl, tls), ws and wss", strictyaml.Quote(text), strictyaml.Quote(scheme))
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if hasPath && path != "" && scheme != "ws" && scheme != "wss" {
		return "", fmt.Errorf("%s has a path, which only ws and wss take", strictyaml.Quote(text))
	}
	address, err := withPort(host, port)
	if err != nil {
		return "", fmt.Errorf("%s: %w", strictyaml.Quote(text), err)
	}
	out := scheme + "://" + address
	if path != "" {
		out += "/" + path
	}
	if _, err := url.Parse(out); err != nil || strings.ContainsFunc(out, func(c rune) bool { return unicode.IsControl(c) || c == ' ' || c == '#' }) {
		return "", fmt.Errorf("%s is not a url; write SCHEME://HOST:PORT, as in mqtt://broker.example:1883", strictyaml.Quote(text))
	}
	return out, nil
}

// withPort checks HOST[:PORT] and adds the usual port.
func withPort(host, port string) (string, error) {
	if host == "" || strings.HasPrefix(host, ":") {
		return "", errors.New("the host is missing; write SCHEME://HOST:PORT")
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if bracketed := bare != host; (bracketed && strings.HasSuffix(host, "]")) || !bracketed && !strings.Contains(host, ":") {
		host = net.JoinHostPort(bare, port)
	}
	address, err := parseAddress(host)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(address, ":0") {
		return "", errors.New("port 0 is none to connect to")
	}
	return address, nil
}

// parseBridgeName checks the name of a bridge, which is a source of heartbeats.
func parseBridgeName(text string) (string, error) {
	if slices.Contains(takenNames(), text) {
		return "", fmt.Errorf("%s is the name of something inside holter; choose another", strictyaml.Quote(text))
	}
	return strictyaml.Label("name", text, 128)
}

// takenNames are the sources that there are without bridges, and what else a
// bridge cannot be called.
func takenNames() []string {
	return []string{ReportToBroker, "mqtt", "line", "http", "gateway", "gateway-udp", "gateway-tls"}
}

func parseShareName(text string) (string, error) {
	if strings.ContainsAny(text, "/+#") {
		return "", fmt.Errorf("%s is not the name of a share group: it holds /, + or #", strictyaml.Quote(text))
	}
	return strictyaml.Label("share group", text, 128)
}

func parseQoS(text string) (byte, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1 {
		return 0, fmt.Errorf("%s is not a quality of service to subscribe with; allowed are 0 and 1", strictyaml.Quote(text))
	}
	return byte(n), nil
}

// parseWatermark checks a topic to publish to.
func parseWatermark(text string) (string, error) {
	if text == "off" {
		return text, nil
	}
	return parseTopic("topic", text)
}

// parsePrefix checks the first levels of topics to publish to.
func parsePrefix(text string) (string, error) {
	if strings.HasSuffix(text, "/") {
		return "", fmt.Errorf("%s ends with /; leave that out", strictyaml.Quote(text))
	}
	return parseTopic("prefix", text)
}

func parseTopic(what, text string) (string, error) {
	if strings.ContainsAny(text, "+#") || strings.HasPrefix(text, "$") {
		return "", fmt.Errorf("%s is not a topic to publish to: it holds + or #, or begins with $", strictyaml.Quote(text))
	}
	return strictyaml.Label(what, text, 1024)
}

func parseFactor(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 1 && f <= 1000) {
		return 0, fmt.Errorf("%s is not a factor; allowed is more than 1 to 1000, as in 2.5", strictyaml.Quote(text))
	}
	return f, nil
}

func parseRegex(text string) (string, error) {
	if text == "" || len(text) > 4096 || !utf8.ValidString(text) {
		return "", errors.New("the regular expression is empty, or longer than 4096 bytes")
	}
	return text, nil
}
