package playbook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// MaxDefinition is the largest size of a definition in bytes.
const MaxDefinition = 64 << 10

// format is that of a definition.
func format() strictyaml.Format {
	return strictyaml.Format{MaxSize: 4 * MaxDefinition, MaxKeys: 5000, Empty: "write an object with name and steps"}
}

// Parse reads the JSON of a [Definition], with the rules of a file of settings. name is the playbook's,
// which the definition may repeat; empty: the definition has it. The error joins an [*Error] for each
// mistake of form; [Check] finds the others. The playbook is what could be read.
func Parse(name string, definition []byte) (Playbook, error) {
	whole := func(err error) error { return &Error{Playbook: name, Err: err} }
	if len(definition) > MaxDefinition {
		return Playbook{Name: name}, whole(fmt.Errorf("it has %d bytes, want %d at most", len(definition), MaxDefinition))
	}
	var compact bytes.Buffer // YAML allows JSON, but no tabs before a value
	if err := json.Compact(&compact, definition); err != nil {
		return Playbook{Name: name}, whole(fmt.Errorf("this is not JSON: %w", err))
	}
	p, err := parseText(name, "the definition", compact.String())
	var found *mistakes
	if !errors.As(err, &found) {
		if err != nil {
			err = whole(err)
		}
		return p, err
	}
	errs := make([]error, len(found.list))
	for i, m := range found.list {
		e := &Error{Playbook: cmp.Or(name, p.Name), Err: errors.New(m.Message)}
		e.Step, e.Key = p.locate(m.Path)
		errs[i] = e
	}
	return p, errors.Join(errs...)
}

// ParseFile reads a text that is the YAML or JSON of a [Definition], and has mistakes with their lines.
// file is its name, and name that of the playbook as for [Parse].
func ParseFile(name, file, text string) (Playbook, error) {
	p, err := parseText(name, file, text)
	if found, ok := errors.AsType[*mistakes](err); ok {
		return p, found.lines
	}
	return p, err
}

// mistakes are those of a definition.
type mistakes struct {
	lines error // with their places
	list  []strictyaml.Mistake
}

func (m *mistakes) Error() string { return m.lines.Error() }

// parseText reads a definition. Its error is of [strictyaml.Format.Parse], or has type *mistakes.
func parseText(name, file, text string) (Playbook, error) {
	d, root, err := format().Parse(file, text)
	if err != nil {
		return Playbook{Name: name}, err
	}
	need := ""
	if name == "" {
		need = "a playbook needs a name and steps"
	}
	p := read(d, "", root, need)
	switch {
	case p.Name == "":
		p.Name = name
	case name != "" && name != p.Name:
		d.FailAt("name", fmt.Sprintf("it is %s here, and %s where it is to be stored; write one of them", strictyaml.Quote(p.Name), strictyaml.Quote(name)))
		p.Name = name
	}
	if d.Mistakes() == 0 {
		return p, nil
	}
	return p, &mistakes{errors.Join(d.Errs()...), d.Found()}
}

// stepPath is the path of a step, and of what is in it.
var stepPath = regexp.MustCompile(`^(steps|on_recover)\[([0-9]+)\]\.?(.*)$`)

// locate returns the step and the key that a path leads to. A step without a name has none, and its path
// is in the key.
func (p *Playbook) locate(path string) (step, key string) {
	at := stepPath.FindStringSubmatch(path)
	if at == nil {
		return "", path
	}
	steps := p.Steps
	if at[1] == "on_recover" {
		steps = p.Recovered
	}
	i, err := strconv.Atoi(at[2])
	if err != nil || i >= len(steps) || steps[i].Name == "" {
		return "", path
	}
	return steps[i].Name, strings.TrimPrefix(at[3], ".")
}
