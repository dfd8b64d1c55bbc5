package report

import (
	"encoding/json"
	"fmt"
	"strings"
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

// DiscoveryOf is the device that a sensor belongs to.
type DiscoveryOf struct {
	Identifiers []string `json:"identifiers"`
	Name        string   `json:"name"`
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

// discovery returns the payload for a device and its source, which is empty for a device that was
// never heard. Reporters with other prefixes publish other sensors for the same id.
func discovery(prefix, id, source string) []byte {
	unique := "holter_" + prefix + "_" + id
	available := []Availability{{Topic: StatusTopic(prefix), Available: Online, NotAvailable: Offline}}
	if source != "" {
		available = append(available, Availability{Topic: SourceTopic(prefix, source), Available: Online, NotAvailable: Offline})
	}
	b, err := json.Marshal(Discovery{
		Name: "Connectivity", UniqueID: unique, DeviceClass: "connectivity", StateTopic: StateTopic(prefix, id),
		ValueTemplate: valueTemplate, PayloadOn: "ON", PayloadOff: "OFF", JSONAttributesTopic: StateTopic(prefix, id),
		Availability: available, AvailabilityMode: "all",
		QoS:    1,
		Device: DiscoveryOf{Identifiers: []string{unique}, Name: id},
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
