// Package presets has the conventions that are known by a name: those of firmwares, gateways and brokers that many fleets run.
//
// Most are data, a convention.Spec in a file of its own, and can be printed as a start for one's own rules. Where a convention has no
// heartbeat and its broker vouches for the device, its presets announce that silence means nothing (convention.Never).
package presets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holter-iot/holter/mqttbridge/awsiot"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/homeassistant"
	"github.com/holter-iot/holter/mqttbridge/homie"
	"github.com/holter-iot/holter/mqttbridge/sparkplug"
)

// specs are the presets that are data, or mostly, by name.
func specs() map[string]func() convention.Spec {
	return map[string]func() convention.Spec{
		"emqx":           emqx,
		"emqx-keepalive": emqxKeepAlive,
		"esphome":        esphome,
		"homie":          homie.Spec,
		"hono":           hono,
		"nats":           nats,
		"raw":            raw,
		"shelly":         shelly,
		"tasmota":        tasmota,
		"zigbee2mqtt":    zigbee2mqtt,
	}
}

// code are the presets that are not, or not only.
func code() map[string]func() (convention.Convention, error) {
	return map[string]func() (convention.Convention, error){
		"homeassistant": func() (convention.Convention, error) { return homeassistant.New(homeassistant.Config{}), nil },

		"aws":       func() (convention.Convention, error) { return awsiot.New(), nil },
		"homie":     func() (convention.Convention, error) { return homie.New() },
		"sparkplug": func() (convention.Convention, error) { return sparkplug.New(), nil },
	}
}

// Names returns the names of all presets, sorted.
func Names() []string {
	var all []string
	for name := range specs() {
		all = append(all, name)
	}
	for name := range code() {
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// New returns the preset of a name. Each call returns another one: a convention is used by one bridge.
func New(name string) (convention.Convention, error) {
	if preset, ok := code()[name]; ok {
		return preset()
	}
	if spec, ok := specs()[name]; ok {
		return convention.New(spec())
	}
	hint := ""
	if near := nearest(name); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, fmt.Errorf("there is no preset %q%s; there are %s", name, hint, strings.Join(Names(), ", "))
}

// Spec returns the rules of the preset of a name, if it is data. Of homie that is all but the trees of version 5.
func Spec(name string) (convention.Spec, bool) {
	spec, ok := specs()[name]
	if !ok {
		return convention.Spec{}, false
	}
	return spec(), true
}

// nearest returns the name that was probably meant, "" if none is near.
func nearest(name string) string {
	name = strings.ToLower(name)
	best, least := "", len(name)/2+1
	for _, known := range Names() {
		switch d := distance(name, known); {
		case d < least:
			best, least = known, d
		case best == "" && len(name) >= 3 && strings.HasPrefix(known, name):
			best = known
		}
	}
	return best
}

// distance returns how many bytes have to be changed, added or removed to make one text of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// onlineOffline are the cases of a topic that says, retained, whether its device is there: a birth message, a last will, and an empty payload
// when the retained message is removed.
func onlineOffline(online, offline string) []convention.Case {
	return []convention.Case{
		{Text: new(online), Means: convention.Online},
		{Text: new(offline), Means: convention.Offline},
		{Empty: true, Means: convention.Gone},
	}
}

// ignored are the cases of topics on which devices are told, and do not tell.
func ignored() []convention.Case { return []convention.Case{{Means: convention.Ignore}} }
