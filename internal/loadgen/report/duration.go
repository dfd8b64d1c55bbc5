package report

import (
	"encoding/json"
	"math"
	"time"
)

// Seconds is a duration that is a number of seconds in JSON.
type Seconds time.Duration

// Millis is a duration that is a number of milliseconds in JSON.
type Millis time.Duration

// String formats a duration as [time.Duration] does.
func (d Seconds) String() string { return time.Duration(d).String() }

// String formats a duration as [time.Duration] does.
func (d Millis) String() string { return time.Duration(d).String() }

// MarshalJSON implements [json.Marshaler].
func (d Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).Seconds()) }

// MarshalJSON implements [json.Marshaler].
func (d Millis) MarshalJSON() ([]byte, error) { return json.Marshal(d.number()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Seconds) UnmarshalJSON(b []byte) (err error) {
	*d, err = parse[Seconds](b, time.Second)
	return err
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Millis) UnmarshalJSON(b []byte) (err error) {
	*d, err = parse[Millis](b, time.Millisecond)
	return err
}

func (d Millis) number() float64 { return float64(d) / float64(time.Millisecond) }

func parse[D Seconds | Millis](b []byte, unit time.Duration) (D, error) {
	var number float64
	err := json.Unmarshal(b, &number)
	return D(math.Round(number * float64(unit))), err
}

// List is a slice that is [] in JSON if it is empty.
type List[T any] []T

// MarshalJSON implements [json.Marshaler].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
