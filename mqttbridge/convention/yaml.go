package convention

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/holter-iot/holter/internal/duration"
)

// YAML returns the rules as they are written in the configuration of a bridge, to be copied and adapted.
func (s Spec) YAML() string {
	type flow Case // without the marshaler of Case
	text, err := yaml.MarshalWithOptions(map[string][]Rule{"rules": s.Rules}, yaml.IndentSequence(true),
		yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(durationYAML(d)), nil }),
		yaml.CustomMarshaler(func(c Case) ([]byte, error) { return yaml.MarshalWithOptions(flow(c), yaml.Flow(true)) }))
	if err != nil {
		return "# " + err.Error() // New rejects what is not a value of YAML
	}
	var b strings.Builder
	for line := range strings.Lines(s.About) {
		b.WriteString("# " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String() + string(text)
}

// durationYAML writes a duration as people do: 5m, not 5m0s.
func durationYAML(d time.Duration) string {
	if d == Never {
		return "never"
	}
	return duration.String(d)
}
