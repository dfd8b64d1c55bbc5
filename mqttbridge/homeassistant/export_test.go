package homeassistant

import "github.com/holter-iot/holter/mqttbridge/convention"

// NewLimited returns a convention with bounds of its own.
func NewLimited(topics, cost, entities int) convention.Convention {
	h := New().(*Discovery)
	h.limits = limits{topics: topics, cost: cost, entities: entities}
	return h
}

// Size is how much is known: discovery topics, devices, topics and the bytes that they are charged with.
func Size(c convention.Convention) [4]int {
	h := c.(*Discovery)
	return [4]int{len(h.sources), len(h.devices), len(h.topics), h.cost}
}

// Limit bounds what a convention keeps.
func Limit(j *Join, claims int) { j.limit = claims }
