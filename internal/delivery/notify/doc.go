// Package notify tells people: it has the kinds of endpoints slack, teams, discord, telegram, ntfy, email,
// pagerduty and opsgenie. Each service is one file: how its address and its credentials look, and the
// request that it is sent.
//
// The chat kinds send the messages that wait together, as one. The kinds for incidents, pagerduty and
// opsgenie, send each alone: what fires opens an incident by a key that stands for the device, the source
// or the group, and what resolves closes it, so that a repetition changes nothing.
//
// Deliveries to an endpoint are made one after the other, at its rate. Connections, redirects, proxies
// and responses are as package webhook has them.
package notify
