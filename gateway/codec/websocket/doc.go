// Package websocket carries a protocol of the gateway in WebSocket frames (RFC 6455), for browsers: the
// protocol's bytes are the payload of binary messages, whose borders mean nothing (MQTT 5, 6).
//
// A connection begins with an HTTP request to upgrade it. Text messages, extensions and frames that are
// not masked end it. Pings are answered.
package websocket
