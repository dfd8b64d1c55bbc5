package websocket

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // RFC 6455, 4.2.2 asks for it, and not for its strength
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holter-iot/holter/gateway/codec"
)

// maxRequest is the size of the longest request, in bytes.
const maxRequest = 8 << 10

// upgrade is the answer to a request that is granted.
type upgrade struct{ accept, subprotocol string }

// request takes the request off input.
func (c *conn) request(input []byte) (n int, err error) {
	n = requestEnd(input[:min(len(input), maxRequest)])
	switch {
	case n == 0 && len(input) >= maxRequest:
		return 0, c.reject(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the request has more than %d bytes", maxRequest))
	case n == 0:
		return 0, nil
	}
	r, e := http.ReadRequest(bufio.NewReader(bytes.NewReader(input[:n])))
	if e != nil {
		return 0, c.reject(http.StatusBadRequest, "this is no request of HTTP")
	}
	if err := c.check(r); err != nil {
		return 0, err
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	c.upgrade = &upgrade{accept: base64.StdEncoding.EncodeToString(sum[:]), subprotocol: c.subprotocol(r)}
	return n, nil
}

// check returns why a request is not granted (RFC 6455, 4.2.1).
func (c *conn) check(r *http.Request) error {
	key, _ := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.URL.Path != c.protocol.Path:
		return c.reject(http.StatusNotFound, "there is nothing here but WebSocket at "+c.protocol.Path)
	case !has(r.Header, "Connection", "upgrade") || !has(r.Header, "Upgrade", "websocket"):
		return c.reject(http.StatusUpgradeRequired, "this address speaks WebSocket only")
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return c.reject(http.StatusUpgradeRequired, "the version of WebSocket must be 13")
	case len(key) != 16:
		return c.reject(http.StatusBadRequest, "Sec-WebSocket-Key must be 16 bytes in base64")
	case c.subprotocol(r) == "":
		return c.reject(http.StatusBadRequest, "Sec-WebSocket-Protocol must name one of: "+strings.Join(c.protocol.Subprotocols, ", "))
	case !c.protocol.allows(r.Header.Get("Origin"), r.Host):
		return c.reject(http.StatusForbidden, "pages of this origin may not connect: "+r.Header.Get("Origin"))
	}
	return nil
}

// subprotocol returns the first name that the client offers and the protocol has; "" if there is none.
func (c *conn) subprotocol(r *http.Request) string {
	for _, name := range tokens(r.Header, "Sec-WebSocket-Protocol") {
		if slices.Contains(c.protocol.Subprotocols, name) {
			return name
		}
	}
	return ""
}

// tokens returns the elements of a header that is a list.
func tokens(h http.Header, name string) (all []string) {
	for _, line := range h.Values(name) {
		for token := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(token))
		}
	}
	return all
}

func has(h http.Header, name, token string) bool {
	return slices.ContainsFunc(tokens(h, name), func(t string) bool { return strings.EqualFold(t, token) })
}

// reject returns the error for a request, which is answered with a status.
func (c *conn) reject(status int, text string) error {
	c.status = status
	return &codec.Error{Code: codec.BadMessage, Text: text}
}

// appendUpgrade appends the answer to the request.
func (u *upgrade) append(dst []byte) []byte {
	return fmt.Appendf(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"+
		"Sec-WebSocket-Protocol: %s\r\n\r\n", u.accept, u.subprotocol)
}

// appendRejection appends the answer to a request that is not granted.
func appendRejection(dst []byte, status int, text string) []byte {
	extra := ""
	if status == http.StatusUpgradeRequired {
		extra = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, text)
	return fmt.Appendf(dst, "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), extra, len(text)+1, text)
}
