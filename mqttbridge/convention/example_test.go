package convention_test

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

func ExampleNew() {
	pumps, err := convention.New(convention.Spec{
		Name: "pumps",
		Rules: []convention.Rule{{
			Topic:   "plant/{hall}/pump-{number}/state",
			Device:  "{hall}-{number}",
			Timeout: time.Minute,
			Cases: []convention.Case{
				{JSON: "/state", Equals: []any{"lost"}, Means: convention.Offline},
				{JSON: "/state", Means: convention.Beat},
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, payload := range []string{`{"state":"running"}`, `{"state":"lost"}`, `{"rpm":900}`} {
		m := convention.Message{Topic: "plant/north/pump-7/state", Payload: []byte(payload)}
		err := pumps.Apply(m, true, func(s convention.Sign) { fmt.Println(s.Meaning, s.Device, "-", s.Why) })
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// beat north-7 - rule 1 (plant/{hall}/pump-{number}/state): /state is there
	// offline north-7 - rule 1 (plant/{hall}/pump-{number}/state): /state is lost
	// ignore  - rule 1 (plant/{hall}/pump-{number}/state): no case fits
}
