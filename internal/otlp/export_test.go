package otlp

import "net/http"

// Through makes an exporter use a transport.
func (e *Exporter) Through(t http.RoundTripper) { e.client.Transport = t }

// Room is how many spans wait at most.
const Room = room
