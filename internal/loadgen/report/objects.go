package report

import (
	"encoding/json"
	"io"
)

// Objects is a [View] for programs: one object of JSON a line. Each has a type: first "start", then
// "sample" for each sample, and in the end "result", which is what [WriteJSON] writes without the
// samples.
type Objects struct {
	out     *json.Encoder
	run     Run
	started bool
}

// typeJSON is embedded, and not a field, so that it comes first.
type typeJSON struct {
	Type string `json:"type"`
}

// NewObjects returns a view that writes objects.
func NewObjects(out io.Writer, run Run) *Objects {
	return &Objects{out: json.NewEncoder(out), run: run}
}

// Show implements [View].
func (o *Objects) Show(s *Sample) error {
	if err := o.start(); err != nil {
		return err
	}
	return o.out.Encode(struct {
		typeJSON
		*Sample
	}{typeJSON{"sample"}, s})
}

// End implements [View].
func (o *Objects) End(f *Final) error {
	if err := o.start(); err != nil {
		return err
	}
	return o.out.Encode(struct {
		typeJSON
		finalJSON

		Samples []Sample `json:"samples,omitempty"` // takes the place of the other one, and is left out
	}{typeJSON: typeJSON{"result"}, finalJSON: f.wire()})
}

// Close implements [View]: there is nothing to do.
func (o *Objects) Close() error { return nil }

func (o *Objects) start() error {
	if o.started {
		return nil
	}
	o.started = true
	return o.out.Encode(struct {
		typeJSON
		schemaJSON
		Run
	}{typeJSON{"start"}, schemaJSON{Schema}, o.run})
}
