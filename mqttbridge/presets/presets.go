// Package presets contains the named conventions of common firmwares, gateways and brokers.
//
// Most are rules, a convention.Spec in a file of its own, and can be printed as a start for one's
// own rules. Where a convention has no heartbeats and the broker tracks a device's liveness, its
// preset announces that silence means nothing (convention.Never).
package presets

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/awsiot"
	"github.com/holter-iot/holter/mqttbridge/internal/homie"
	"github.com/holter-iot/holter/mqttbridge/internal/sparkplug"
	"github.com/holter-iot/holter/mqttbridge/internal/tasmota"
)

// preset is a named convention. spec is its rules, or most of them; code builds those that are more than rules.
type preset struct {
	spec func() convention.Spec
	code func() (convention.Convention, error)
}

func all() map[string]preset {
	return map[string]preset{
		"aws":            {code: func() (convention.Convention, error) { return awsiot.New(), nil }},
		"chirpstack":     {spec: chirpstack},
		"emqx":           {spec: emqx},
		"emqx-keepalive": {spec: emqxKeepAlive},
		"esphome":        {spec: esphome},
		"homeassistant":  {code: func() (convention.Convention, error) { return homeassistant.New(), nil }},
		"homie":          {spec: homie.Spec, code: func() (convention.Convention, error) { return homie.New() }},
		"hono":           {spec: hono},
		"nats":           {spec: nats},
		"raw":            {spec: raw},
		"shelly":         {spec: shelly},
		"sparkplug":      {code: func() (convention.Convention, error) { return sparkplug.New(), nil }},
		"tasmota":        {spec: tasmota.Spec, code: func() (convention.Convention, error) { return tasmota.New() }},
		"thethingsstack": {spec: theThingsStack},
		"zigbee2mqtt":    {spec: zigbee2mqtt},
	}
}

// Names returns the names of all presets, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all())) }

// New returns the preset with a name. Each call returns another one: a convention is used by one
// bridge.
func New(name string) (convention.Convention, error) {
	switch p, ok := all()[name]; {
	case !ok:
		return nil, fmt.Errorf("there is no preset %q%s; there are %s", name, strictyaml.DidYouMean(name, Names()), strings.Join(Names(), ", "))
	case p.code != nil:
		return p.code()
	default:
		spec := p.spec()
		spec.Strict = true
		return convention.New(spec)
	}
}

// Spec returns the rules of the preset with a name, if it consists of rules. For homie it returns
// all but the trees of version 5, for tasmota all but discovery.
func Spec(name string) (convention.Spec, bool) {
	if spec := all()[name].spec; spec != nil {
		return spec(), true
	}
	return convention.Spec{}, false
}

// onlineOffline returns the cases of a retained status topic: a birth message, a last will, and an
// empty payload when the retained message is removed.
func onlineOffline(online, offline string) []convention.Case {
	return []convention.Case{
		{Text: new(online), Means: convention.Online},
		{Text: new(offline), Means: convention.Offline},
		{Empty: true, Means: convention.Gone},
	}
}

// ignored returns the cases of topics with messages to devices.
func ignored() []convention.Case { return []convention.Case{{Means: convention.Ignore}} }
