package config

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// listenList stores the file's list of device ports.
func listenList(d *strictyaml.Reader, all *[]Listener) strictyaml.Setter {
	return func(path string, n ast.Node) {
		items := d.Items(path, n)
		if len(items) == 0 {
			if v := d.Resolve(path, n); v != nil && v.Type() == ast.SequenceType {
				d.Fail(path, n, "the list is empty; remove the key for %s, or write [off] for no device port", DefaultListen)
			}
		}
		for i, item := range items {
			if l := listener(d, strictyaml.Element(path, i), item); l.Address != "" {
				*all = append(*all, l)
			}
		}
	}
}

// listener reads an address, or a mapping with more to say. It has no address if that is wrong.
func listener(d *strictyaml.Reader, path string, n ast.Node) (l Listener) {
	switch d.Resolve(path, n).(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		l = longListener(d, path, n)
	default:
		strictyaml.Value(d, &l, parseListener)(path, n)
	}
	l.at = d.Place(path, n)
	return l
}

// longListener reads the mapping.
func longListener(d *strictyaml.Reader, path string, n ast.Node) (l Listener) {
	var (
		address   Listener
		protocols []string
		files     *cert.Files
	)
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "address", Set: strictyaml.Value(d, &address, parseAnyListener)},
		{Key: "protocols", Set: protocolList(d, &protocols)},
		{Key: "tls", Set: listenerTLS(d, &files, &l.Identity)},
		{Key: "proxies", Set: list(d, &l.Proxies, "write a network", parseNetwork)},
		{Key: "max_messages", Set: strictyaml.Plain(d, &l.Messages, perSecond(1))},
		{Key: "max_devices", Set: strictyaml.Plain(d, &l.MaxDevices, count{min: 1, max: 100_000_000, off: true}.parse)},
		{Key: "max_bytes", Set: strictyaml.Plain(d, &l.Bytes, perSecond(8<<10))},
		{Key: "lenient", Set: strictyaml.Flag(d, &l.Lenient)},
		{Key: "dtu", Set: dtuSection(d, &l.DTU)},
	})
	fail := func(key, message string) { d.FailAt(strictyaml.Join(path, key), message) }
	switch {
	case seen["address"] == nil:
		d.Fail(path, n, "address is missing; a device port needs one, as in 0.0.0.0:7700")
	case address.Address == "" || d.Mistakes() > before:
		return address // that was said
	case seen["protocols"] != nil && strings.Contains(scalarOf(d, seen["address"]), "://"):
		fail("protocols", "the address names protocols, too; write them in one of both places")
	}
	l.Address, l.Protocols, l.Packets, l.TLS = address.Address, address.Protocols, address.Packets, address.TLS
	if len(protocols) > 0 {
		l.Protocols = protocols
	} else if l.DTU != nil && !strings.Contains(scalarOf(d, seen["address"]), "://") {
		l.Protocols = []string{ProtocolDTU}
	}
	if files != nil {
		l.TLS = files
	}
	l.check(fail)
	return l
}

// check says what does not go together.
func (l *Listener) check(fail func(key, message string)) {
	speaksDTU := slices.Contains(l.Protocols, ProtocolDTU)
	switch {
	case l.Packets && l.TLS != nil:
		fail("tls", "TLS over UDP is not supported; remove it, or udp from the address")
	case len(l.Proxies) > 0 && l.Identity != gateway.AnyName && l.Identity != gateway.CommonName:
		fail("tls.identity", "a proxy passes on the common name alone; write cn, or remove it")
	case l.Packets && len(l.Proxies) > 0:
		fail("proxies", "there are no PROXY headers over UDP; remove it, or udp from the address")
	case l.Lenient && !slices.Contains(l.Protocols, ProtocolGT06):
		fail("lenient", "lenient is for clones of gt06, which the port does not speak; add gt06 to its protocols, or remove this")
	case l.DTU != nil && !speaksDTU:
		fail("dtu", "the port has no protocol dtu; add dtu to its protocols, or remove this")
	case l.DTU == nil && speaksDTU:
		fail("dtu", `dtu needs an expression for the registration; write dtu: {registration: '\d{15}'}, if that is an IMEI`)
	}
}

// scalarOf returns the text of a value.
func scalarOf(d *strictyaml.Reader, n ast.Node) string {
	text, _ := strictyaml.Scalar(d.Resolve("", n))
	return text
}

func protocolList(d *strictyaml.Reader, all *[]string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		before := d.Mistakes()
		var words []string
		for i, item := range d.SomeItems(path, n, "name a protocol") {
			word := ""
			strictyaml.Value(d, &word, parseProtocol)(strictyaml.Element(path, i), item)
			words = append(words, word)
		}
		if d.Mistakes() > before {
			return
		}
		l, err := parseProtocols(words)
		if err != nil {
			d.Fail(path, n, "%v", err)
		}
		*all = l.Protocols
	}
}

func listenerTLS(d *strictyaml.Reader, files **cert.Files, identity *gateway.Identity) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var t cert.Files
		var ciphers []string
		seen := d.Mapping(path, n, append(certificate(d, &t),
			strictyaml.Field{Key: "client_ca", Set: strictyaml.Value(d, &t.Clients, parseFile)},
			strictyaml.Field{Key: "crl", Set: strictyaml.Value(d, &t.Revoked, parseFile)},
			strictyaml.Field{Key: "min_version", Set: strictyaml.Value(d, &t.MinVersion, parseTLSVersion)},
			strictyaml.Field{Key: "ciphers", Set: list(d, &ciphers, "name a cipher suite", parseCipher)},
			strictyaml.Field{Key: "identity", Set: strictyaml.Value(d, identity, parseIdentity)},
			strictyaml.Field{Key: "client_names", Set: strictyaml.Value(d, &t.Optional, parseClientNames)}))
		t.Ciphers = strings.Join(ciphers, ",")
		switch {
		case (seen["cert"] == nil) != (seen["key"] == nil):
			d.Fail(path, n, "a certificate needs its key: give both cert and key, or neither for those of the API")
		}
		for _, key := range []string{"client_names", "crl", "identity"} {
			if seen[key] != nil && seen["client_ca"] == nil {
				d.Fail(strictyaml.Join(path, key), seen[key], "client_ca is missing; give the file with the authorities that sign device certificates")
			}
		}
		*files = &t
	}
}

// list reads a list of values, of which there must be one at least: todo says what to write.
func list[T any](d *strictyaml.Reader, all *[]T, todo string, parse func(string) (T, error)) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, todo) {
			var one T
			strictyaml.Value(d, &one, parse)(strictyaml.Element(path, i), item)
			*all = append(*all, one)
		}
	}
}

// dtuSection stores the settings of DTUs, which package dtu checks.
func dtuSection(d *strictyaml.Reader, out **dtu.Options) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var o dtu.Options
		before := d.Mistakes()
		d.Mapping(path, n, []strictyaml.Field{
			{
				Key: "registration", Need: `write what a registration packet looks like, as in '\d{15}' for an IMEI`,
				Set: strictyaml.Value(d, &o.Registration, text("regular expression", 1024)),
			},
			{Key: "hex", Set: strictyaml.Flag(d, &o.Hex)},
			{Key: "mode", Set: strictyaml.Value(d, &o.Mode, parseDTUMode)},
			{Key: "heartbeat", Set: strictyaml.Value(d, &o.Heartbeat, parseBytes)},
			{Key: "poll", Set: strictyaml.Value(d, &o.Poll, parseBytes)},
		})
		*out = &o
		if d.Mistakes() > before {
			return
		}
		_, err := dtu.New(o)
		for _, err := range joined(err) {
			field, message, _ := strings.Cut(strings.TrimPrefix(err.Error(), "dtu: "), " ")
			d.FailAt(strictyaml.Join(path, strings.ToLower(strings.TrimSuffix(field, ":"))), message)
		}
	}
}

// parseBytes reads a text, or the digits behind hex:, in which spaces do not count.
func parseBytes(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "hex:")
	if !ok {
		if text == "" {
			return nil, errors.New("there is nothing in it; write a text, or hex: and pairs of hexadecimal digits, or remove it")
		}
		return []byte(text), nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil || len(b) == 0 {
		return nil, errors.New("hex: is not followed by pairs of hexadecimal digits, as in hex:01 03 00 00 00 01 84 0a")
	}
	return b, nil
}
