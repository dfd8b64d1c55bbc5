package homeassistant

// The memory that is held for each thing, in bytes. These are upper bounds for a 64-bit machine: a map of one entry has room for eight,
// one that has grown is half empty, and a text takes up to a quarter more than its length. A thing is charged when it is made, and its
// charge is given back when it is dropped.

// templateCost is what a byte of a template may become: [1<1,1<1] is two comparisons of two numbers each, and every one is a func with
// what it needs.
const templateCost = 48

func textCost(texts ...string) (n int) {
	for _, text := range texts {
		n += len(text) + len(text)/4
	}
	return n
}

func sourceCost(at string, f *found) int {
	n := 160 + textCost(at)
	for i := range f.entities {
		e := &f.entities[i]
		n += 128 + textCost(e.state, e.off.text, e.off.template)
	}
	return n
}

func deviceCost(id string) int { return 512 + 2*textCost(id) }

func topicCost(name string) int { return 208 + textCost(name) }

func signalCost(r reading) int {
	return 960 + textCost(r.topic, r.on, r.off, r.template) + templateCost*len(r.template)
}

func groupCost(g *group) int { return 320 + textCost(g.key) + 48*len(g.signals) }

const statesCost = 256

func offCost(o off) int { return 448 + textCost(o.text, o.template) + templateCost*len(o.template) }
