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

// written is what the mapping of a device port says.
type written struct {
	Listener

	address   Listener
	protocols []string
	tls       cert.Files
	ciphers   []string
	dtu       dtu.Options
}

// listenerFields lists its keys.
func listenerFields(w *written) []strictyaml.Field {
	return slices.Concat([]strictyaml.Field{
		strictyaml.Key("address", strictyaml.Value(&w.address, parseAnyListener), "required", "`HOST:PORT`, may begin with protocols"),
		strictyaml.Key("protocols", protocolList(&w.protocols), "those of the address; dtu, if there is a section dtu", "list of protocols, if the address names none"),
		strictyaml.Key("proxies", strictyaml.List(&w.Proxies, "write a network", parseNetwork), "none",
			"list of networks or addresses of proxies such as [HAProxy](protocols.md#haproxy-in-front), whose connections begin with a PROXY header (version 1 or 2). "+
				"It is trusted about the device's address, and the name in its certificate: any other machine in these networks can impersonate any device"),
		strictyaml.Key("max_messages", strictyaml.Plain(&w.Messages, perSecond(1)), "200",
			"messages per second of a connection, or over UDP a device, 1 to 1048576, or 0 (no limit); ten seconds' worth may come at once. "+
				"A connection that sends more is read more slowly, and closed after a minute of that. Datagrams above the limit are dropped"),
		strictyaml.Key("max_bytes", strictyaml.Plain(&w.Bytes, perSecond(8<<10)), "65536", "the same for bytes per second, 8192 to 1048576"),
		strictyaml.Key("max_devices", strictyaml.Limit(&w.MaxDevices, 1, 100_000_000), "no limit but that of all",
			"devices that came in here first and are not forgotten. A new one beyond is refused (`ERR full`), logged and counted, "+
				"so that a port for strangers does not use up the `max_devices` of all. A port is known by its address, also after a restart"),
		strictyaml.Key("lenient", strictyaml.Flag(&w.Lenient), "false",
			"`gt06` frames with a wrong or missing checksum count, as clones send them; each is counted in `holter_gateway_odd_total`"),
	}, strictyaml.Below("tls", listenerTLS(w)), strictyaml.Below("dtu", dtuFields(&w.dtu)))
}

func listenerTLS(w *written) []strictyaml.Field {
	t := &w.tls
	return append(certificate(t, "that of the API", "the certificate of the port, and the intermediate ones"),
		strictyaml.Key("client_ca", strictyaml.Value(&t.Clients, parseFile), "devices are not asked for one",
			"PEM file: the authorities that sign device certificates. The name in a device's certificate is its id. It needs no token, but a line in the `devices_file` if there is one. "+
				"A certificate without a name is refused"),
		strictyaml.Key("crl", strictyaml.Value(&t.Revoked, parseFile), "none",
			"file: lists of revoked certificates (CRL; PEM or DER), signed by authorities of `client_ca`. "+
				"A device whose certificate is on it loses its connection within 5 s. A list counts also when it is out of date"),
		strictyaml.Key("min_version", strictyaml.Value(&t.MinVersion, parseTLSVersion), "1.2", "least version of TLS, `1.2` or `1.3`"),
		strictyaml.Key("ciphers", strictyaml.List(&w.ciphers, "name a cipher suite", parseCipher), "all with authenticated encryption",
			"list of the cipher suites of TLS 1.2 that are served, such as `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`; what TLS 1.3 has is always served"),
		strictyaml.Key("identity", strictyaml.Value(&w.Identity, parseIdentity), "CN, else the first DNS name, else the first URI",
			"what on a certificate is the device's id: `cn`, the one common name; `san_dns` or `san_uri`, the first of its kind; `fingerprint`, the SHA-256 of the certificate in hexadecimal"),
		strictyaml.Key("client_names", strictyaml.Value(&t.Optional, parseClientNames), "required, with a client_ca",
			"`required`: every device shows a certificate; `optional`: a device without one needs a token"))
}

func dtuFields(o *dtu.Options) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("registration", strictyaml.Text(&o.Registration, "regular expression", 1024), "required",
			"regular expression ([syntax](https://golang.org/s/re2syntax)) of the registration packet; its group, or the whole match, is the id").
			Needed(`write what a registration packet looks like, as in '\d{15}' for an IMEI`),
		strictyaml.Key("hex", strictyaml.Flag(&o.Hex), "false", "the expression is matched against the bytes in hexadecimal, two lower-case digits each, instead of text"),
		strictyaml.Key("mode", strictyaml.Value(&o.Mode, parseDTUMode), "once", "`once`: the registration comes at the beginning of the connection; `prefix`: before each packet"),
		strictyaml.Key("heartbeat", strictyaml.Value(&o.Heartbeat, parseBytes), "none", "the heartbeat packet of the DTU: a text, or `hex:` and digits; used only to count messages"),
		strictyaml.Key("poll", strictyaml.Value(&o.Poll, parseBytes), "it cannot be asked", "bytes that ask the machine behind the DTU for an answer, in the same form"),
	}
}

// listeners stores the file's list of device ports.
func listeners(all *[]Listener) strictyaml.Setter {
	return strictyaml.Setter{To: all, Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		items := d.Items(path, n, "")
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
	}}
}

// listener reads an address, or a mapping with more to say. It has no address if that is wrong.
func listener(d *strictyaml.Reader, path string, n ast.Node) (l Listener) {
	switch d.Resolve(path, n).(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		l = longListener(d, path, n)
	default:
		strictyaml.Value(&l, parseListener).Read(d, path, n)
	}
	l.at = d.Place(path, n)
	return l
}

// longListener reads the mapping.
func longListener(d *strictyaml.Reader, path string, n ast.Node) Listener {
	var w written
	before := d.Mistakes()
	seen := d.Mapping(path, n, listenerFields(&w))
	if seen["tls"] != nil {
		w.checkTLS(d, strictyaml.Join(path, "tls"))
	}
	if seen["dtu"] != nil {
		w.DTU = &w.dtu
	}
	if w.dtu.Registration != "" {
		checkDTU(d, strictyaml.Join(path, "dtu"), w.dtu)
	}
	fail := func(key, message string) { d.FailAt(strictyaml.Join(path, key), message) }
	named := func() bool { return strings.Contains(scalarOf(d, seen["address"]), "://") }
	l := &w.Listener
	switch {
	case seen["address"] == nil:
		d.Fail(path, n, "address is missing; a device port needs one, as in 0.0.0.0:7700")
	case w.address.Address == "" || d.Mistakes() > before:
		return w.address // that was said
	case seen["protocols"] != nil && named():
		fail("protocols", "the address names protocols, too; write them in one of both places")
	}
	l.Address, l.Protocols, l.Packets, l.TLS = w.address.Address, w.address.Protocols, w.address.Packets, w.address.TLS
	if len(w.protocols) > 0 {
		l.Protocols = w.protocols
	} else if l.DTU != nil && !named() {
		l.Protocols = []string{ProtocolDTU}
	}
	if seen["tls"] != nil {
		w.tls.Ciphers = strings.Join(w.ciphers, ",")
		l.TLS = &w.tls
	}
	l.check(fail)
	return *l
}

// checkTLS says which keys of tls are missing.
func (w *written) checkTLS(d *strictyaml.Reader, path string) {
	given := func(key string) bool { return d.Has(strictyaml.Join(path, key)) }
	if given("cert") != given("key") {
		d.FailAt(path, "a certificate needs its key: give both cert and key, or neither for those of the API")
	}
	for _, key := range []string{"client_names", "crl", "identity"} {
		if given(key) && !given("client_ca") {
			d.FailAt(strictyaml.Join(path, key), "client_ca is missing; give the file with the authorities that sign device certificates")
		}
	}
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

func protocolList(all *[]string) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		before := d.Mistakes()
		var words []string
		strictyaml.List(&words, "name a protocol", parseProtocol).Read(d, path, n)
		if d.Mistakes() > before {
			return
		}
		l, err := parseProtocols(words)
		if err != nil {
			d.Fail(path, n, "%v", err)
		}
		*all = l.Protocols
	}}
}

// checkDTU has package dtu check the settings of DTUs.
func checkDTU(d *strictyaml.Reader, path string, o dtu.Options) {
	_, err := dtu.New(o)
	for _, err := range joined(err) {
		field, message, _ := strings.Cut(strings.TrimPrefix(err.Error(), "dtu: "), " ")
		d.FailAt(strictyaml.Join(path, strings.ToLower(strings.TrimSuffix(field, ":"))), message)
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
