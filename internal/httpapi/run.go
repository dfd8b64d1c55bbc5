package httpapi

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/liveness"
)

// maxTail is the longest text that a job may send with the end of a run; its end is kept.
const maxTail = 100 << 10

// ending is what a job says of a run that has ended.
type ending struct {
	Message  string `json:"message"`
	Duration took   `json:"duration"`
	Status   *int   `json:"exit_status"`
}

// took is how long a run took, in JSON: a span, or 0, which a run has that took less than the unit of
// whoever measured it. The server's own clock counts then.
type took time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (t *took) UnmarshalJSON(text []byte) error {
	if d, err := duration.Parse(strings.Trim(string(text), `"`)); err == nil && d == 0 {
		return nil
	}
	return (*span)(t).UnmarshalJSON(text)
}

// beatStart handles the start of a run.
func (a *API) beatStart(w http.ResponseWriter, r *http.Request, id string) {
	body, err := readBeat(w, r)
	if err == nil && len(body) > 0 {
		err = &requestError{http.StatusUnprocessableEntity, "body: a start has none; send what the job printed when it ends"}
	}
	a.applyRun(w, r, id, liveness.Signal{Kind: liveness.Start}, err)
}

// beatExit handles the end of a run, with its exit status.
func (a *API) beatExit(w http.ResponseWriter, r *http.Request, id string) {
	status, err := strconv.Atoi(r.PathValue("status"))
	if err != nil || status < 0 || status > 255 {
		a.refuse(w, &requestError{http.StatusUnprocessableEntity, fmt.Sprintf(
			"the exit status is %.40q, want a number from 0 to 255, as $? is in a shell", r.PathValue("status"))})
		return
	}
	end, err := readEnding(w, r)
	if err == nil && end.Status != nil && *end.Status != status {
		err = &requestError{http.StatusUnprocessableEntity, fmt.Sprintf("body: exit_status is %d, and the path says %d; leave it out", *end.Status, status)}
	}
	a.applyRun(w, r, id, end.signal(status != 0, status), err)
}

// beatFail handles a failure that a device reports.
func (a *API) beatFail(w http.ResponseWriter, r *http.Request, id string) {
	end, err := readEnding(w, r)
	status := 0
	if end.Status != nil {
		status = *end.Status
	}
	if err == nil && end.Status != nil && (status < 1 || status > 255) {
		err = &requestError{http.StatusUnprocessableEntity, fmt.Sprintf("body: exit_status is %d, want 1 to 255; 0 is a success", status)}
	}
	a.applyRun(w, r, id, end.signal(true, status), err)
}

// signal returns the signal for the end of a run.
func (e *ending) signal(failed bool, status int) liveness.Signal {
	sig := liveness.Signal{Message: e.Message, ExitStatus: status, Took: time.Duration(e.Duration)}
	if failed {
		sig.Kind = liveness.Failure
	}
	return sig
}

// applyRun applies a signal, and answers once its event is stored.
func (a *API) applyRun(w http.ResponseWriter, r *http.Request, id string, sig liveness.Signal, err error) {
	var said announcement
	if err == nil {
		said, err = announced(r)
	}
	if err == nil {
		sig.Announced, err = a.announcedPolicy(said)
	}
	if err == nil {
		sig.At, sig.Unverified = a.ear.now(), !a.needsToken()
		_, err = a.ear.source.Apply(id, sig)
		err = a.heard(w, r, err)
	}
	a.done(w, err)
}

// readEnding reads a body that is a text, of which the end is kept, or an object.
func readEnding(w http.ResponseWriter, r *http.Request) (end ending, err error) {
	body, err := readBeat(w, r)
	if err != nil {
		return end, err
	}
	if len(body) > maxTail {
		return end, &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"the body has %d bytes, want at most %d; send the end of it, as tail -c %d does", len(body), maxTail, maxTail)}
	}
	end.Message = string(body)
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/json" {
		end = ending{}
		if err := decodeStrict(body, &end); err != nil {
			return end, &requestError{http.StatusUnprocessableEntity, fmt.Sprintf(`body: %v; send a text, or {"message": "what is wrong"}`, err)}
		}
	}
	end.Message = printable(end.Message)
	return end, nil
}

// printable returns a text without blanks around it, in which what no text has is replaced: databases and
// terminals do not take it.
func printable(text string) string {
	clean := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\r' && c != '\t' {
			return unicode.ReplacementChar
		}
		return c
	}, text) // what is not UTF-8 is replaced, too
	return strings.TrimSpace(clean)
}
