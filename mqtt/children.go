package mqtt

import "iter"

// children are the branches of a level of a tree, by name. Most levels have one at most, and need
// no map. The zero children are none.
type children[T any] struct {
	name string
	only *T // called name; nil if there is none, or many
	many map[string]*T
}

// child returns a branch; nil if there is none.
func child[T any, S string | []byte](c *children[T], name S) *T {
	if c.only != nil && c.name == string(name) {
		return c.only
	}
	return c.many[string(name)]
}

func (c *children[T]) put(name string, branch *T) {
	if c.only == nil && c.many == nil {
		c.name, c.only = name, branch
		return
	}
	if c.many == nil {
		c.many = map[string]*T{c.name: c.only}
		c.name, c.only = "", nil
	}
	c.many[name] = branch
}

func (c *children[T]) remove(name string) {
	if c.only != nil {
		*c = children[T]{}
		return
	}
	if delete(c.many, name); len(c.many) == 0 {
		c.many = nil
	}
}

func (c *children[T]) none() bool { return c.only == nil && c.many == nil }

// all returns all branches with their names, in no order.
func (c *children[T]) all() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		if c.only != nil {
			yield(c.name, c.only)
			return
		}
		for name, branch := range c.many {
			if !yield(name, branch) {
				return
			}
		}
	}
}
