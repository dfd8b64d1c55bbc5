package delivery

import (
	"net/http"
	"net/netip"
)

// NewWebhook makes a webhook that asks through a transport.
func NewWebhook(transport http.RoundTripper) Sink {
	h := newWeb(nil, "holter/test").sink("http://example.org/hook")
	h.client.Transport = transport
	return h
}

// WebhookKind makes webhooks, which go to the networks that are given too, and what closes their connections.
func WebhookKind(private ...netip.Prefix) (Kind, func()) {
	w := newWeb(private, "holter/test")
	return w.kind, w.close
}

// MQTTKind makes what publishes to brokers.
func MQTTKind(guard *Guard) Kind { return mqttKind(guard) }
