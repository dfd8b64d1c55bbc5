package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
)

const (
	beatPath  = "/v1/beat/"
	beatsPath = "/v1/beats"
	// bodyTimeout bounds the time in which a body with heartbeats must arrive, because the
	// listening clock waits for it.
	bodyTimeout = 5 * time.Second
)

// registerBeats adds the routes for heartbeats. huma describes them and does not serve them.
func (a *API) registerBeats(mux routes, api huma.API) {
	add := func(pattern string, handle func(w http.ResponseWriter, r *http.Request, id string)) {
		mux.route(pattern, a.hearing(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead { // which a mux takes for GET
				notAllowed(w, "GET, POST")
				return
			}
			handle(w, r, r.PathValue("id"))
		}))
	}
	add("GET "+beatPath+"{id}", a.beat)
	add("POST "+beatPath+"{id}", a.beat)
	add("POST "+beatPath+"{id}/start", a.beatStart)
	add("POST "+beatPath+"{id}/exit/{status}", a.beatExit)
	add("POST "+beatPath+"{id}/fail", a.beatFail)
	add("POST "+beatPath+"{id}/bye", a.beatBye)
	add("POST "+beatPath+"{id}/sleep", a.beatSleep)
	mux.ServeMux.HandleFunc(strings.TrimSuffix(beatPath, "/"), mux.fallback) // else it leads to the id /
	mux.ServeMux.HandleFunc("POST "+beatsPath, a.hearing(a.turns.handler(a.beats)))
	describeBeats(api.OpenAPI())
}

// hearing keeps the listening clock behind the heartbeats that are being handled, and refuses
// requests without the role.
func (a *API) hearing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := &turn{ResponseWriter: w, ear: a.ear, place: a.ear.Enter()}
		defer t.leave()
		if _, ok := a.authorize(w, r, auth.RoleBeat, r.Method == http.MethodGet); ok {
			next(t, r)
		}
	}
}

// beat handles a heartbeat.
func (a *API) beat(w http.ResponseWriter, r *http.Request, id string) {
	policy, err := a.beatPolicy(w, r)
	if err == nil && r.Method == http.MethodGet {
		err = a.checkSame(id, policy)
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	welcome, err := a.ear.source.Apply(id, liveness.Signal{At: a.ear.now(), Announced: policy, Unverified: !a.needsToken()})
	if err == nil && welcome.Pending {
		err = a.heard(w, r, nil)
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.ear.beats.Add(1)
	answer := make([]byte, 0, 128)
	answer = append(answer, `{"timeout_ms":`...)
	if welcome.Policy.Timeout >= liveness.Never {
		answer = append(answer, "null"...)
	} else {
		answer = appendMilliseconds(answer, welcome.Policy.Timeout)
	}
	answer = append(answer, `,"interval_ms":`...)
	answer = appendMilliseconds(answer, welcome.Policy.Interval)
	answer = append(answer, `,"policy":`...)
	answer = appendJSON(answer, welcome.From)
	if expect := welcome.Policy.Expect; expect != "" {
		answer = appendJSON(append(answer, `,"expect":`...), expect)
	}
	answer = append(answer, "}\n"...)
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write(answer) // the client may be gone
}

// beatPolicy returns the policy that a heartbeat announces in its query or its body.
func (a *API) beatPolicy(w http.ResponseWriter, r *http.Request) (liveness.Policy, error) {
	said, err := announced(r)
	if err != nil {
		return liveness.Policy{}, err
	}
	body, err := readBeat(w, r)
	if err != nil {
		return liveness.Policy{}, err
	}
	if len(body) > 0 {
		if err := decodeStrict(body, &said); err != nil {
			return liveness.Policy{}, &requestError{http.StatusUnprocessableEntity, fmt.Sprintf(
				`body: %v; send nothing, or {"ttl": "10m"}`, err)}
		}
	}
	return a.announcedPolicy(said)
}

// announced returns what the query of a heartbeat announces.
func announced(r *http.Request) (said announcement, err error) {
	if r.URL.RawQuery == "" {
		return said, nil
	}
	query, err := parseQuery(r.URL.RawQuery, "ttl", "interval", "expect", "zone", "grace", "token")
	if err != nil {
		return said, err
	}
	said.Expect, said.Zone = query.Get("expect"), query.Get("zone")
	return said, errors.Join(said.TTL.set("query.ttl", query.Get("ttl")), said.Interval.set("query.interval", query.Get("interval")),
		said.Grace.set("query.grace", query.Get("grace")))
}

func (a *API) announcedPolicy(said announcement) (liveness.Policy, error) {
	p, err := said.policy(a.registry)
	if err != nil {
		return p, &requestError{http.StatusUnprocessableEntity, err.Error()}
	}
	return p, nil
}

// checkSame refuses an announcement by GET that changes the policy of a device that was heard before, unless
// tokens are needed. A page of any site can make a browser send a GET without a sign of that: a ttl of a year
// would keep a dead device online for so long, and one of a second, instead of the time at which a nightly job
// is expected, would let it go offline each day. What other rules override changes nothing.
func (a *API) checkSame(id string, said liveness.Policy) error {
	if said == (liveness.Policy{}) || a.needsToken() {
		return nil
	}
	current, announced, known := a.registry.Operator().IfAnnounced(id, said)
	if !known || announced == current {
		return nil
	}
	setting, asked, holds := "interval", duration.String(announced.Interval), duration.String(current.Interval)
	switch {
	case announced.Expect != current.Expect:
		setting, asked, holds = "expect", strconv.Quote(announced.Expect), strconv.Quote(current.Expect)
	case announced.Timeout != current.Timeout && announced.Expect != "":
		setting, asked, holds = "grace", duration.String(announced.Timeout), duration.String(current.Timeout)
	case announced.Timeout != current.Timeout:
		setting, asked, holds = "ttl", duration.String(announced.Timeout), duration.String(current.Timeout)
	}
	return &requestError{http.StatusUnprocessableEntity, fmt.Sprintf(
		"%s is %s, and a GET without a token cannot change the %s that holds for this device; announce it by POST once, or set it as the device's policy", setting, asked, holds)}
}

// beatBye handles a goodbye.
func (a *API) beatBye(w http.ResponseWriter, r *http.Request, id string) {
	_, err := parseQuery(r.URL.RawQuery)
	if err == nil {
		_, err = a.ear.source.Apply(id, liveness.Signal{Kind: liveness.Goodbye, At: a.ear.now(), Unverified: !a.needsToken()})
		err = a.heard(w, r, err)
	}
	a.done(w, err)
}

// beatSleep handles the announcement of a sleep.
func (a *API) beatSleep(w http.ResponseWriter, r *http.Request, id string) {
	query, err := parseQuery(r.URL.RawQuery, "for")
	if err != nil {
		a.refuse(w, err)
		return
	}
	length, err := parseDuration(query.Get("for"))
	if err != nil {
		a.refuse(w, &requestError{http.StatusUnprocessableEntity, "query.for: " + err.Error()})
		return
	}
	welcome, err := a.ear.source.Apply(id, liveness.Signal{Kind: liveness.Sleep, At: a.ear.now(), Length: length, Unverified: !a.needsToken()})
	if err = a.heard(w, r, err); err != nil {
		a.refuse(w, err)
		return
	}
	a.ear.beats.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(appendMilliseconds([]byte(`{"granted_ms":`), welcome.Granted), "}\n"...)) // the client may be gone
}

// done answers a request that has no other result than success.
func (a *API) done(w http.ResponseWriter, err error) {
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.ear.beats.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

// requestError is a mistake of the client, with its status.
type requestError struct {
	status int
	detail string
}

func (e *requestError) Error() string { return e.detail }

// refuse answers a heartbeat that was not accepted.
func (a *API) refuse(w http.ResponseWriter, err error) {
	a.ear.refused.Add(1)
	status, detail := problemOf(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeProblem(w, status, detail)
}

// problemOf returns the status and the detail for an error.
func problemOf(err error) (status int, detail string) {
	var bad *requestError
	switch {
	case errors.As(err, &bad):
		return bad.status, bad.detail
	case errors.Is(err, liveness.ErrBusy):
		return http.StatusServiceUnavailable, "too many events wait to be stored; try again in a second"
	case errors.Is(err, errUncommitted):
		return http.StatusServiceUnavailable, err.Error()
	case errors.Is(err, liveness.ErrUnknownDevice):
		return http.StatusNotFound, unknownDevice
	case errors.Is(err, liveness.ErrFull):
		return http.StatusInsufficientStorage, "there is no room for another device; delete some, or raise the most there may be"
	case errors.Is(err, liveness.ErrInvalidID):
		return http.StatusUnprocessableEntity, strings.TrimPrefix(err.Error(), "liveness: ") +
			"; an id is 1 to 128 bytes of UTF-8 in normal form C, without blanks at its ends or characters that are not seen"
	default: // what is left is a bad policy, whose fields a heartbeat calls ttl and interval
		names := strings.NewReplacer("Timeout", "ttl", "Interval", "interval", "Expect", "expect", "\n", "; ")
		return http.StatusUnprocessableEntity, names.Replace(strings.TrimPrefix(err.Error(), "liveness: "))
	}
}

// readBeat reads a body within bodyTimeout.
func readBeat(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer has deadlines, see Handler
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; send less at a time", large.Limit)}
	case err != nil:
		return nil, &requestError{http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive whole within %v; send it again", bodyTimeout)}
	}
	return body, nil
}

// parseQuery parses a query with some allowed parameters.
func parseQuery(raw string, names ...string) (url.Values, error) {
	if raw == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &requestError{http.StatusUnprocessableEntity, fmt.Sprintf("query: %v; percent-encode what is not a letter or a digit", err)}
	}
	if err := onlyKnown(query, names); err != nil {
		return nil, &requestError{http.StatusUnprocessableEntity, err.Error()}
	}
	return query, nil
}

// appendMilliseconds appends a duration as JSON.
func appendMilliseconds(to []byte, d time.Duration) []byte {
	if d%time.Millisecond == 0 {
		return strconv.AppendInt(to, d.Milliseconds(), 10)
	}
	return strconv.AppendFloat(to, milliseconds(d), 'f', -1, 64)
}
