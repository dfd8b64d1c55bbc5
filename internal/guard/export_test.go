package guard

import "io"

// Parse returns a guard of the lines of a file that need not exist.
func Parse(name string, lines io.Reader) (*File, error) {
	t, err := read(name, lines)
	if err != nil {
		return nil, err
	}
	f := &File{path: name}
	f.table.Store(t)
	return f, nil
}
