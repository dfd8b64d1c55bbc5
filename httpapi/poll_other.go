//go:build !unix

package httpapi

// readable cannot tell here.
func readable(descriptors []int) []bool { return make([]bool, len(descriptors)) }
