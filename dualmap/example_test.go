package dualmap_test

import (
	"fmt"

	"github.com/holter-iot/holter/dualmap"
)

// A waiting line whose entries can be moved in O(1): the place that was left is told by its arming.
func Example() {
	type place struct {
		current dualmap.Current
		name    string
	}
	m := dualmap.New(100, false, nil)
	var line []place
	arming := uint16(0)
	queue := func(o dualmap.Original, name string) {
		arming++
		c := dualmap.Current{Slot: o.Slot, Arming: arming}
		m.Arm(c)
		line = append(line, place{c, name})
	}

	ada, _ := m.Insert(1, 0, 0)
	bob, _ := m.Insert(1, 0, 0)
	cyd, _ := m.Insert(1, 0, 0)
	queue(ada, "Ada")
	queue(bob, "Bob")
	queue(cyd, "Cyd")
	queue(ada, "Ada") // to the end of the line; her first place is dead where it lies

	if m.Remove(bob, 1) { // Bob went home
		m.Release(bob.Slot)
	}
	for _, p := range line {
		if m.IsCurrent(p.current) {
			fmt.Println(p.name)
		}
	}
	// Output:
	// Cyd
	// Ada
}

// An identifier is never taken for a later tenant of its slot.
func ExampleOriginal() {
	m := dualmap.New(1, false, nil) // one slot only
	first, _ := m.Insert(10, 0, 0)
	m.Remove(first, 10)
	m.Release(first.Slot)
	second, _ := m.Insert(20, 0, 0)

	_, ok := m.Load(first)
	fmt.Println("first lives:", ok)
	value, ok := m.Load(second)
	fmt.Println("second lives:", ok, value)
	// Output:
	// first lives: false
	// second lives: true 20
}
