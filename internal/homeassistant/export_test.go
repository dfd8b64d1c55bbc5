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

// Limit bounds the bytes that a convention keeps.
func Limit(j *Join, bytes int) { j.limit = bytes }

// Held returns the bytes that a convention counts.
func Held(j *Join) int { return j.held }
