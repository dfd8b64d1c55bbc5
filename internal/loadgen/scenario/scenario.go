// Package scenario reads plans of simulated fleets from YAML, and contains a set of ready ones.
//
// A scenario file has the words of [plan.Plan], [plan.Phase] and [plan.Act] in snake case;
// testdata/full.yaml shows them all. Durations are written as 30s, 5m or 1h30m, shares as 10% or
// 0.1, a ramp as 20000 or 20000/s, sources as addresses, ranges of them (127.0.0.2-127.0.0.40) or
// networks (10.1.0.0/24). The groups of an act are a number or a share of all groups. What is left
// out has the default of [plan.Plan.Fill].
//
// The file is strict: an unknown or repeated key, a value of the wrong type or out of range, and
// acts that want more devices than there are, each is a mistake that is reported with file, line,
// column, the line itself and what is allowed; all of them together. No message shows the value of
// token, nor that of a key that looks like a misspelt one. How many devices there are, where they
// connect to and from where may be left for [Override]; what depends on it is checked by
// [plan.Plan.Validate] afterwards, as must be done after any change.
package scenario

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/strictyaml"
)

//go:embed ready/*.yaml
var ready embed.FS

const suffix = ".yaml"

// Names lists the ready scenarios in alphabetical order.
func Names() []string {
	entries, err := ready.ReadDir("ready")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), suffix)
	}
	return names
}

// Text returns the file of a ready scenario, as a starting point for others.
func Text(name string) (string, error) {
	text, err := ready.ReadFile("ready/" + name + suffix)
	if err != nil {
		return "", unknownName(name)
	}
	return string(text), nil
}

// Summary returns what a ready scenario is for: the comment at the beginning of its file, in one
// line.
func Summary(name string) (string, error) {
	text, err := Text(name)
	if err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimSpace(comment))
	}
	return strings.Join(lines, " "), nil
}

// Ready returns a new plan of a ready scenario.
func Ready(name string) (*plan.Plan, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return Parse(name+suffix, text)
}

// Open returns the plan of a ready scenario or of a file. What has a path separator in it or ends
// in .yaml or .yml is a file.
func Open(nameOrFile string) (*plan.Plan, error) {
	if isFile(nameOrFile) {
		return Load(nameOrFile)
	}
	p, err := Ready(nameOrFile)
	if err != nil {
		if info, statErr := os.Stat(nameOrFile); statErr == nil && info.Mode().IsRegular() {
			return nil, fmt.Errorf("%w; for the file of this name write .%c%s", err, filepath.Separator, nameOrFile)
		}
	}
	return p, err
}

func isFile(name string) bool {
	extension := strings.ToLower(filepath.Ext(name))
	return extension == suffix || extension == ".yml" || strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator)
}

func unknownName(name string) error {
	return fmt.Errorf("unknown scenario %s%s (known are %s, or give a file: ./NAME.yaml)",
		strictyaml.Quote(name), strictyaml.DidYouMean(name, Names()), strings.Join(Names(), ", "))
}

// format is that of a scenario file.
func format() strictyaml.Format {
	return strictyaml.Format{
		MaxSize: 256 << 10,
		MaxKeys: 12_000,
		Empty:   "write at least one phase, as in phases: [{length: 5m}]",
	}
}

// Load returns the plan of a file.
func Load(file string) (*plan.Plan, error) {
	text, err := format().ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read the scenario: %w", file, err)
	}
	return Parse(file, text)
}

// Parse returns the plan of the text of a file. Messages call it by the name, which is also the
// plan's unless the file says another.
func Parse(name, text string) (*plan.Plan, error) {
	r, root, err := format().Parse(name, text)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{}
	r.Mapping("", root, planFields(p))
	if p.Name == "" {
		base := filepath.Base(name)
		p.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	p.Fill()
	if r.Mistakes() == 0 {
		validate(r, p)
	}
	if r.Mistakes() > 0 {
		return nil, errors.Join(r.Errs()...)
	}
	return p, nil
}

// enough is a number of devices so great that no act wants more than there are, and each share of
// them is somebody. It is round, so that shares make whole numbers.
func enough(p *plan.Plan) int {
	const round, most = 10_000, 10_000_000
	n, group := 0.0, float64(max(p.Group, 1))
	for _, ph := range p.Phases {
		for _, a := range ph.Acts {
			n += float64(a.Count) + group*float64(a.Groups)
			if share := max(a.Share, a.GroupShare); share > 0 {
				n += group / share
			}
		}
	}
	return (int(min(n, most-1)) + round) / round * round
}

// validate reports what is wrong with a plan at the places where the file says it. What the file
// leaves to the command line is taken to be right.
func validate(r *strictyaml.Reader, p *plan.Plan) {
	check := *p
	if !r.Has("devices") {
		check.Devices = enough(p)
	}
	if !r.Has("targets") {
		check.Targets = []string{"127.0.0.1:7700"}
	}
	if !r.Has("sources") {
		check.Sources = someSources()
	}
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](check.Validate())
	if !ok {
		return
	}
	for _, e := range joined.Unwrap() {
		if f, ok := errors.AsType[*plan.FieldError](e); ok {
			r.FailAt(f.Field, f.Text)
		}
	}
}
