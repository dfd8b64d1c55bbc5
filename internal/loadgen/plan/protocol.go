package plan

import (
	"maps"
	"slices"
)

// The protocols of a fleet: those of the gateway, with MQTT 3.1.1 and 5 apart.
const (
	Line      = "line"
	Frame     = "frame"
	JT808     = "jt808"
	Teltonika = "teltonika"
	GT06      = "gt06"
	MQTT      = "mqtt" // 3.1.1
	MQTT5     = "mqtt5"
)

// words are what a protocol can say, and ids that fit it.
type words struct {
	bye, sleep bool
	id         string
}

func protocols() map[string]words {
	return map[string]words{
		Line:      {bye: true, sleep: true, id: "dev-%07d"},
		Frame:     {bye: true, sleep: true, id: "dev-%07d"},
		JT808:     {bye: true, id: "139%08d"}, // the number of a phone
		Teltonika: {id: "35000%010d"},         // an IMEI
		GT06:      {id: "86000%010d"},         // an IMEI
		MQTT:      {bye: true, id: "dev-%07d"},
		MQTT5:     {bye: true, id: "dev-%07d"},
	}
}

// SpeaksMQTT reports whether the devices speak a version of MQTT.
func (p *Plan) SpeaksMQTT() bool { return p.Protocol == MQTT || p.Protocol == MQTT5 }

// Protocols returns the names of all protocols.
func Protocols() []string { return slices.Sorted(maps.Keys(protocols())) }
