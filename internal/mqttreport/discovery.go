package mqttreport

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Discovery is the payload by which Home Assistant discovers a device's connectivity sensor (MQTT integration, "MQTT discovery" and
// "Binary sensor").
type Discovery struct {
	Name                string         `json:"name"`
	UniqueID            string         `json:"unique_id"`
	DeviceClass         string         `json:"device_class"`
	StateTopic          string         `json:"state_topic"`
	ValueTemplate       string         `json:"value_template"`
	PayloadOn           string         `json:"payload_on"`
	PayloadOff          string         `json:"payload_off"`
	JSONAttributesTopic string         `json:"json_attributes_topic"`
	Availability        []Availability `json:"availability"`
	AvailabilityMode    string         `json:"availability_mode"`
	QoS                 int            `json:"qos"`
	Device              DiscoveryOf    `json:"device"`
	Origin              Origin         `json:"origin"`
}

// Availability names the status topic of the reporter, or of the device's source.
type Availability struct {
	Topic        string `json:"topic"`
	Available    string `json:"payload_available"`
	NotAvailable string `json:"payload_not_available"`
}

// DiscoveryOf is the device that a sensor belongs to: one of its own, with a name, or one that Home Assistant knows already. Of that it has
// one identifier or connection and nothing else, which links the sensor to it. Anything more, also via_device, would describe the device,
// in place of whoever does (DEVICE_INFO_TYPES in
// https://github.com/home-assistant/core/blob/dev/homeassistant/helpers/device_registry.py).
type DiscoveryOf struct {
	Identifiers []string    `json:"identifiers,omitempty"`
	Connections [][2]string `json:"connections,omitempty"` // kind and value
	Name        string      `json:"name,omitempty"`
}

// Origin names the publisher.
type Origin struct {
	Name string `json:"name"`
	URL  string `json:"support_url"`
}

// Payloads of a status topic.
const (
	Online  = "online"
	Offline = "offline"
)

// valueTemplate is ON for all states of a device that is alive, and None, which means unknown, for
// a device that was never heard.
const valueTemplate = "{{ 'OFF' if value_json.state == 'offline' else 'None' if value_json.state == 'never_seen' else 'ON' }}"

const (
	nodePrefix = "holter_"
	objectID   = "connectivity"
)

// nodeID returns a device's id as a node identifier of letters, digits, hyphens and underscores.
// Other bytes become an underscore and two hexadecimal digits, so that identifiers are unique.
func nodeID(id string) string {
	var b strings.Builder
	b.WriteString(nodePrefix)
	for _, c := range []byte(id) {
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// DiscoveryTopic is the topic of a device's discovery.
func DiscoveryTopic(discoveryPrefix, id string) string {
	return discoveryPrefix + "/binary_sensor/" + nodeID(id) + "/" + objectID + "/config"
}

func discoveryFilter(discoveryPrefix string) string {
	return discoveryPrefix + "/binary_sensor/+/" + objectID + "/config"
}

// uniqueID returns the identifier of a device's sensor, and of the device if that is one of its own. Reporters with other prefixes publish
// other sensors for the same id.
func uniqueID(prefix, id string) string { return "holter_" + prefix + "_" + id }

// deviceBlock returns the device that a sensor belongs to.
func deviceBlock(prefix, id string, identity *convention.Identity) DiscoveryOf {
	switch {
	case identity == nil:
		return DiscoveryOf{Identifiers: []string{uniqueID(prefix, id)}, Name: id}
	case identity.Kind == "":
		return DiscoveryOf{Identifiers: []string{identity.Value}}
	default:
		return DiscoveryOf{Connections: [][2]string{{identity.Kind, identity.Value}}}
	}
}

// identityIn returns the identity in a retained discovery message of a device, or nil.
func identityIn(prefix, id string, payload []byte) *convention.Identity {
	var d struct {
		Device DiscoveryOf `json:"device"`
	}
	if json.Unmarshal(payload, &d) != nil {
		return nil
	}
	var found convention.Identity
	switch {
	case len(d.Device.Identifiers) > 0 && d.Device.Identifiers[0] != uniqueID(prefix, id):
		found.Value = d.Device.Identifiers[0]
	case len(d.Device.Connections) > 0:
		found.Kind, found.Value = d.Device.Connections[0][0], d.Device.Connections[0][1]
	}
	if found.Check() != nil {
		return nil
	}
	return &found
}

// discovery returns the payload for a device and its source, which is empty for a device that was
// never heard.
func discovery(prefix, id, source string, identity *convention.Identity) []byte {
	available := []Availability{{Topic: StatusTopic(prefix), Available: Online, NotAvailable: Offline}}
	if source != "" {
		available = append(available, Availability{Topic: SourceTopic(prefix, source), Available: Online, NotAvailable: Offline})
	}
	b, err := json.Marshal(Discovery{
		Name: "Connectivity", UniqueID: uniqueID(prefix, id), DeviceClass: "connectivity", StateTopic: StateTopic(prefix, id),
		ValueTemplate: valueTemplate, PayloadOn: "ON", PayloadOff: "OFF", JSONAttributesTopic: StateTopic(prefix, id),
		Availability: available, AvailabilityMode: "all",
		QoS:    1,
		Device: deviceBlock(prefix, id, identity),
		Origin: Origin{Name: "holter", URL: "https://github.com/holter-iot/holter"},
	})
	if err != nil {
		panic(err) // strings
	}
	return b
}

// discovered returns the device of a retained discovery message with this prefix.
func discovered(prefix, discoveryPrefix, topic string, payload []byte) (string, bool) {
	var d Discovery
	if json.Unmarshal(payload, &d) != nil {
		return "", false
	}
	id, ok := idOf(prefix, d.StateTopic)
	return id, ok && topic == DiscoveryTopic(discoveryPrefix, id)
}
