package strictjson_test

import (
	"reflect"
	"testing"

	"github.com/holter-iot/holter/internal/strictjson"
)

type common struct {
	Timeout float64 `json:"timeout_ms,omitempty"`
}

type settings struct {
	common

	Name    string            `json:"name"`
	QoS     *byte             `json:"qos,omitempty"`
	Args    []string          `json:"args"`
	Headers map[string]string `json:"headers"`
	Shell   bool              `json:"shell"`
}

func TestDecode(t *testing.T) {
	var s settings
	if err := strictjson.Decode([]byte(`{"name":"a","timeout_ms":1.5,"args":["b"]}`), &s); err != nil ||
		!reflect.DeepEqual(s, settings{common: common{1.5}, Name: "a", Args: []string{"b"}}) {
		t.Errorf("%+v, %v", s, err)
	}
	if err := strictjson.Decode(nil, &s); err != nil || s.Name != "a" {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		`{"nane":1}`:        `there is no field "nane"; want timeout_ms, name, qos, args, headers, shell`,
		`[]`:                "they are of the type array; want an object with timeout_ms, name, qos, args, headers, shell",
		`{"name":1}`:        "name is of the type number; want a string",
		`{"timeout_ms":""}`: "timeout_ms is of the type string; want a number",
		`{"qos":300}`:       "qos is of the type number 300; want a whole number, and none that is too large",
		`{"args":{}}`:       "args is of the type object; want a list of strings",
		`{"headers":[]}`:    "headers is of the type array; want an object",
		`{"shell":1}`:       "shell is of the type number; want true or false",
		`{`:                 "this is not JSON: unexpected EOF",
	} {
		if err := strictjson.Decode([]byte(text), new(settings)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
