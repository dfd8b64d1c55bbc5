// Package strictjson decodes settings that people write as JSON. An unknown name is an error, and errors
// are about the text, not about Go types.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Decode reads an object into the struct that into points to. No text at all leaves it as it is.
func Decode(text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Errorf("there is no field %.80s; want %s", name, fieldsOf(into))
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return fmt.Errorf("this is not JSON: %w", err)
	case wrong.Type == reflect.TypeOf(into).Elem():
		return fmt.Errorf("they are of the type %s; want an object with %s", wrong.Value, fieldsOf(into))
	}
	field := wrong.Field[strings.LastIndex(wrong.Field, ".")+1:] // those of structs that are embedded have their names before them
	return fmt.Errorf("%s is of the type %s; want %s", field, wrong.Value, kindOf(wrong.Type))
}

func kindOf(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // the others are numbers
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number, and none that is too large"
}

// fieldsOf returns the names of the fields that a struct is read from.
func fieldsOf(into any) string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
