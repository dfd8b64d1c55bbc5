package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

// maxBatch is the largest number of heartbeats in a batch.
const maxBatch = 10_000

// announcement is the policy that a heartbeat announces.
type announcement struct {
	TTL      span   `json:"ttl"`
	Interval span   `json:"interval"`
	Expect   string `json:"expect"`
	Zone     string `json:"zone"`
	Grace    span   `json:"grace"`
}

// policy returns the announced policy. If only the interval is announced, the timeout is three
// intervals.
func (a announcement) policy(r *liveness.Registry) (liveness.Policy, error) {
	p := liveness.Policy{Timeout: time.Duration(a.TTL), Interval: time.Duration(a.Interval)}
	switch {
	case a.Expect != "" && a.TTL != 0:
		return p, errors.New("expect and ttl both say when the next heartbeat is due; beside expect, grace says how late it may be")
	case a.Expect == "" && (a.Zone != "" || a.Grace != 0):
		return p, errors.New("zone and grace belong to expect, which is missing; without it, ttl says when the next heartbeat is due")
	case a.Expect != "":
		var err error
		if p.Expect, err = r.Operator().ParseExpect(a.Expect, a.Zone); err != nil {
			return p, fmt.Errorf("expect: %w", err)
		}
		p.Timeout = time.Duration(a.Grace)
	case p.Timeout == 0:
		p.Timeout = min(3*p.Interval, maxDuration)
	}
	return p, nil
}

// span is a duration in JSON: a text as parseDuration understands it, or a number of seconds.
type span time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (s *span) UnmarshalJSON(text []byte) error {
	var said any
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	var d time.Duration
	var err error
	switch v := said.(type) {
	case nil:
	case string:
		d, err = parseDuration(v)
	case float64:
		d, err = durationOf(v, time.Second)
	default:
		err = errors.New("a duration is a text like \"10m\", or a number of seconds")
	}
	*s = span(d)
	return err
}

// set sets the duration from a parameter, unless that is empty.
func (s *span) set(name, text string) error {
	if text == "" {
		return nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return &requestError{http.StatusUnprocessableEntity, name + ": " + err.Error()}
	}
	*s = span(d)
	return nil
}

// decodeStrict decodes a body that is exactly one JSON value.
func decodeStrict(body []byte, into any) error {
	if !utf8.Valid(body) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return explainJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}

// explainJSON rewrites JSON errors without Go's terms.
func explainJSON(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s must not be %s", kind.Field, withArticle(kind.Value))
	case errors.As(err, &kind):
		return fmt.Errorf("it must not be %s", withArticle(kind.Value))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// withArticle returns the name of a kind of JSON value with its article.
func withArticle(kind string) string {
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

// batchBeat is a heartbeat of a batch.
type batchBeat struct {
	id     string
	policy liveness.Policy
	err    error // the heartbeat is invalid or was refused
}

// decodeBatch decodes a JSON array of ids, or of objects with an id. The err of a heartbeat says
// what is wrong with that one; the error of decodeBatch, that the array cannot be read.
func decodeBatch(r *liveness.Registry, body []byte) ([]batchBeat, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if begin, err := d.Token(); err != nil {
		return nil, explainJSON(err)
	} else if begin != json.Delim('[') {
		return nil, errors.New("it is not an array")
	}
	var beats []batchBeat
	var raw json.RawMessage
	for d.More() {
		if len(beats) == maxBatch {
			return nil, fmt.Errorf("it has more than %d heartbeats", maxBatch)
		}
		if err := d.Decode(&raw); err != nil {
			return nil, explainJSON(err)
		}
		beats = append(beats, decodeBeat(r, raw))
	}
	if _, err := d.Token(); err != nil {
		return nil, explainJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the array")
	}
	return beats, nil
}

func decodeBeat(r *liveness.Registry, raw json.RawMessage) batchBeat {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return batchBeat{id: string(raw[1 : len(raw)-1])}
	}
	var said struct {
		announcement

		ID string `json:"id"`
	}
	var err error
	if raw[0] == '"' {
		err = json.Unmarshal(raw, &said.ID)
	} else {
		err = decodeStrict(raw, &said)
	}
	policy, wrong := said.policy(r)
	switch {
	case err == nil && wrong != nil:
		err = wrong
	case err != nil:
		err = fmt.Errorf(`%w; a heartbeat is an id, or {"id": "a", "ttl": "10m"}`, explainJSON(err))
	case strings.ContainsRune(said.ID, utf8.RuneError) && bytes.Contains(raw, []byte(`\u`)):
		err = errors.New("the id has an escape that is no character")
	}
	return batchBeat{id: said.ID, policy: policy, err: err}
}

// BatchError is the reason why a heartbeat of a batch was refused.
type BatchError struct {
	Index  int    `json:"index" doc:"Its place in the batch, from 0."`
	ID     string `json:"id,omitempty"`
	Status int    `json:"status" doc:"Status that it would have been answered with on its own."`
	Detail string `json:"detail"`
}

// BatchAnswer is the result of a batch of heartbeats.
type BatchAnswer struct {
	Accepted int          `json:"accepted"`
	Rejected int          `json:"rejected"`
	Errors   []BatchError `json:"errors" doc:"Errors of the rejected heartbeats, in order."`
}

// busyBatchError is the problem that some heartbeats of a batch could not be accepted yet.
type busyBatchError struct {
	huma.ErrorModel

	Accepted int          `json:"accepted"`
	Rejected int          `json:"rejected"`
	Errors   []BatchError `json:"errors" doc:"Errors of the rejected heartbeats, in order."` // hides the field of the model
}

// beats handles a batch of heartbeats.
func (a *API) beats(w http.ResponseWriter, r *http.Request) {
	_, err := parseQuery(r.URL.RawQuery)
	var body []byte
	if err == nil {
		body, err = readBeat(w, r)
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	batch, err := decodeBatch(a.registry, body)
	if err != nil {
		a.refuse(w, &requestError{http.StatusUnprocessableEntity, fmt.Sprintf(
			`body: %v; send ["a", "b"] or [{"id": "a", "ttl": "10m"}], of at most %d heartbeats`, err, maxBatch)})
		return
	}
	answer, why := a.takeBatch(w, r, batch)
	if why != nil {
		_, detail := problemOf(why)
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, "application/problem+json", &busyBatchError{
			ErrorModel: newProblem(http.StatusServiceUnavailable, detail+"; all of the batch may be sent again"),
			Accepted:   answer.Accepted, Rejected: answer.Rejected, Errors: answer.Errors,
		})
		return
	}
	writeJSON(w, http.StatusOK, "application/json", &answer)
}

// takeBatch applies the heartbeats, and returns why some could not be accepted yet.
func (a *API) takeBatch(w http.ResponseWriter, r *http.Request, batch []batchBeat) (answer BatchAnswer, why error) {
	var pending []int
	now := a.ear.now()
	for i := range batch {
		b := &batch[i]
		if b.err != nil {
			continue
		}
		var welcome liveness.Welcome
		welcome, b.err = a.ear.source.Apply(b.id, liveness.Signal{At: now, Announced: b.policy, Unverified: !a.needsToken()})
		if b.err == nil && welcome.Pending {
			pending = append(pending, i)
		}
	}
	if len(pending) > 0 {
		err := a.heard(w, r, nil)
		for _, i := range pending {
			batch[i].err = err
		}
	}
	answer.Errors = []BatchError{}
	for i := range batch {
		b := &batch[i]
		if b.err == nil {
			answer.Accepted++
			continue
		}
		status, detail := problemOf(b.err)
		if status == http.StatusServiceUnavailable {
			why = b.err
		}
		answer.Errors = append(answer.Errors, BatchError{Index: i, ID: b.id, Status: status, Detail: detail})
	}
	answer.Rejected = len(answer.Errors)
	a.ear.beats.Add(uint64(answer.Accepted))
	a.ear.refused.Add(uint64(answer.Rejected))
	return answer, why
}
