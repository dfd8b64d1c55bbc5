package score

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// HTTPConfig says where Holter's HTTP API is.
type HTTPConfig struct {
	// URLs are the addresses of the APIs, as in http://127.0.0.1:8080. Several are those of
	// gateways that know nothing of each other.
	URLs []string
	// Token is sent with each request; "" sends none.
	Token string
	// ClockSkew is how far the gateways' clocks are ahead of the one of this machine. Default: it
	// is measured, again and again.
	ClockSkew *time.Duration
	// Retry is the pause after a broken connection. Default 200 ms.
	Retry time.Duration
	// Quiet is how long nothing may arrive before a connection counts as broken. Holter sends
	// something every 15 s. Default 45 s.
	Quiet time.Duration
}

// HTTP is a [Follower] of the event streams of Holter's HTTP API.
type HTTP struct {
	config HTTPConfig
	urls   []string
	client *http.Client // for questions
}

// NewHTTP checks a configuration. It connects nowhere.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	h := &HTTP{config: cfg, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 5 * time.Second}}}
	if h.config.Retry == 0 {
		h.config.Retry = 200 * time.Millisecond
	}
	if h.config.Quiet == 0 {
		h.config.Quiet = 45 * time.Second
	}
	var errs []error
	if len(cfg.URLs) == 0 {
		errs = append(errs, errors.New("score: there is no URL; give that of Holter's HTTP API, as in http://127.0.0.1:8080"))
	}
	seen := make(map[string]bool)
	for _, text := range cfg.URLs {
		u, err := url.Parse(text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("score: %w; write it as in http://127.0.0.1:8080", err))
			continue
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			errs = append(errs, fmt.Errorf("score: %q is no address of an HTTP API; write it as in http://127.0.0.1:8080", text))
			continue
		case seen[strings.TrimSuffix(text, "/")]:
			errs = append(errs, fmt.Errorf("score: %s is there twice; give each address once", text))
		}
		seen[strings.TrimSuffix(text, "/")] = true
		h.urls = append(h.urls, strings.TrimSuffix(text, "/"))
	}
	return h, errors.Join(errs...)
}

// Follow implements [Follower]. tell is called by two goroutines for each address, one of which
// only reports the clock. It fails if an address cannot be followed at all: nothing answers the first
// attempt, or the token is refused, now or later.
func (h *HTTP) Follow(ctx context.Context, from uint64, tell func(Verdict)) error {
	transport := &http.Transport{ResponseHeaderTimeout: 10 * time.Second, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	all, ctx := errgroup.WithContext(ctx)
	for _, u := range h.urls {
		s := &stream{config: &h.config, url: u, client: &http.Client{Transport: transport}, tell: tell, place: from, known: from != FromNow && from != 0}
		s.oldest = from == 0
		s.clock = newClockwork(s)
		all.Go(func() error {
			if s.clock.begin(ctx) {
				all.Go(func() error { return s.clock.run(ctx) })
			}
			return s.run(ctx)
		})
	}
	return all.Wait()
}

// Knows asks whether a device is held to be online, and was heard since an instant of the gateway's
// clock, at any of the addresses.
func (h *HTTP) Knows(ctx context.Context, device string, since time.Time) (known bool, err error) {
	for _, u := range h.urls {
		s := &stream{config: &h.config, url: u, client: h.client}
		one, fault := s.knows(ctx, device, since)
		known, err = known || one, cmp.Or(err, fault)
	}
	return known, err
}

func (s *stream) knows(ctx context.Context, device string, since time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := s.request(ctx, "/v1/devices/"+url.PathEscape(device))
	if err != nil {
		return false, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return false, nil
	default:
		return false, refusal(resp)
	}
	var answer struct {
		State    string    `json:"state"`
		LastSeen time.Time `json:"last_seen"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&answer); err != nil {
		return false, fmt.Errorf("what is said of device %s cannot be read: %w", device, err)
	}
	here := answer.State == "online" || answer.State == "late" || answer.State == "sleeping"
	return here && !answer.LastSeen.Before(since), nil
}

// stream is one address that is followed.
type stream struct {
	config *HTTPConfig
	url    string
	client *http.Client
	tell   func(Verdict)
	place  uint64 // offset of what was read last
	known  bool   // place is known
	oldest bool   // begin with the oldest event
	began  bool   // it was followed once
	asked  bool   // which sources were deaf before
	// following reports whether the place where the current connection begins is known.
	following bool
	clock     *clockwork
	idle      time.Time // when there was nothing to be read last
}

// errRefused is wrapped by errors that another try will not mend.
var errRefused = errors.New("score: cannot be followed")

func (s *stream) run(ctx context.Context) error {
	for {
		err := s.read(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		switch {
		case errors.Is(err, errRefused) || !s.began:
			return fmt.Errorf("follow %s: %w", s.url, err)
		case s.following:
			s.tell(Verdict{URL: s.url, Kind: Broken, Reason: err.Error(), Seen: time.Now()})
		}
		select {
		case <-time.After(s.config.Retry):
		case <-ctx.Done():
			return nil
		}
	}
}

// read connects, and reads until the connection breaks.
func (s *stream) read(ctx context.Context) error {
	s.following = false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := s.get(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	quiet := time.AfterFunc(s.config.Quiet, cancel)
	defer quiet.Stop()
	d := NewStreamDecoder(readerFunc(func(p []byte) (int, error) {
		asked := time.Now()
		n, err := resp.Body.Read(p)
		if now := time.Now(); now.Sub(asked) > waited {
			s.idle = now
		}
		quiet.Reset(s.config.Quiet)
		return n, err
	}), maxMessage)
	if s.oldest && !s.known {
		s.place = 0
		if err := s.follows(ctx); err != nil {
			return err
		}
	}
	for {
		m, err := d.Next()
		if err != nil {
			return err
		}
		if offset, err := strconv.ParseUint(string(m.ID), 10, 64); err == nil {
			s.inTurn(&m, offset)
			s.place, s.known = offset, true
		} else if m.Data == nil {
			continue
		}
		if err := s.follows(ctx); err != nil {
			return err
		}
		if m.Data == nil {
			continue
		}
		v, ok, err := parse(m)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		v.URL, v.Seen, v.Came = s.url, time.Now(), s.idle
		s.clock.correct(&v)
		s.tell(v)
	}
}

// follows tells Following, once for each connection: nothing more can be missed.
func (s *stream) follows(ctx context.Context) error {
	if s.following {
		return nil
	}
	s.following, s.began = true, true
	s.tell(Verdict{URL: s.url, Kind: Following, Offset: s.place, Full: true, Seen: time.Now()})
	return s.deafBefore(ctx)
}

// deafBefore tells which sources were deaf already when the stream began, unless it began with the
// oldest event. A gateway that has no list of sources, or does not show it, tells nothing.
func (s *stream) deafBefore(ctx context.Context) error {
	if s.asked || s.oldest {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := s.request(ctx, "/v1/sources")
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError {
		return refusal(resp)
	}
	var answer struct {
		Sources []struct {
			Name      string
			DeafSince time.Time `json:"deaf_since"`
		}
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&answer); err != nil {
			return fmt.Errorf("what is said of sources cannot be read: %w", err)
		}
	}
	s.asked = true
	for _, source := range answer.Sources {
		if source.DeafSince.IsZero() {
			continue
		}
		v := Verdict{URL: s.url, Kind: SourceDeaf, Source: source.Name, Time: source.DeafSince, Seen: time.Now()}
		s.clock.correct(&v)
		s.tell(v)
	}
	return nil
}

// askTimeout is how long the answer to a question may take.
const askTimeout = 10 * time.Second

// waited is the shortest duration of a read that counts as waiting.
const waited = time.Millisecond

// inTurn tells of offsets that do not follow the one before: without a filter the stream has each
// of them.
func (s *stream) inTurn(m *StreamMessage, offset uint64) {
	next := s.place + 1
	if m.Data == nil {
		next = s.place
	}
	v := Verdict{URL: s.url, Offset: offset, Seen: time.Now()}
	switch {
	case !s.known || string(m.Event) == missedEvent:
		return
	case offset < next:
		v.Kind = Rewound
	case offset > next:
		v.Kind, v.Offset, v.Seq = Skipped, s.place+1, offset-next
	default:
		return
	}
	s.tell(v)
}

// get asks for the stream.
func (s *stream) get(ctx context.Context) (*http.Response, error) {
	address := "/v1/events/stream"
	if s.oldest {
		address += "?after=0"
	}
	req, err := s.request(ctx, address)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.known {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(s.place, 10))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// request asks for something, with the token if there is one.
func (s *stream) request(ctx context.Context, path string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err == nil && s.config.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.config.Token)
	}
	return req, err
}

// refusal turns an unexpected answer into an error.
func refusal(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // as much as there is
	text := fmt.Sprintf("%s: %.300q", resp.Status, body)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%w: %s; give a token that may read events", errRefused, text)
	case code == http.StatusOK:
		return fmt.Errorf("%w: it answers with %q and not with a stream of events; is this Holter's HTTP API?", errRefused, resp.Header.Get("Content-Type"))
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %s; is this Holter's HTTP API?", errRefused, text)
	case code == http.StatusTooManyRequests, code >= 500:
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", errRefused, text)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// missedEvent is the type of a message about events that are no longer kept.
const missedEvent = "missed"

// cloudEvent is what is needed of an event.
type cloudEvent struct {
	ID      string    `json:"id"`
	Type    string    `json:"type"`
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	Data    struct {
		Offset       uint64    `json:"offset"`
		Seq          uint64    `json:"seq"`
		Epoch        uint64    `json:"epoch"`
		Reason       string    `json:"reason"`
		Source       string    `json:"source"`
		Deadline     time.Time `json:"deadline"`
		LastSeen     time.Time `json:"last_seen"`
		HeardSilence float64   `json:"heard_silence_ms"`
		Timeout      float64   `json:"timeout_ms"`
		Deaf         float64   `json:"deaf_ms"`
	} `json:"data"`
}

// parse turns a message of the stream into a verdict; false if it is about groups, or something
// that came with a later version.
func parse(m StreamMessage) (Verdict, bool, error) {
	if string(m.Event) == missedEvent {
		var gone struct{ Oldest uint64 }
		if err := json.Unmarshal(m.Data, &gone); err != nil {
			return Verdict{}, false, fmt.Errorf("message missed %.200q: %w", m.Data, err)
		}
		return Verdict{Kind: Missed, Offset: gone.Oldest}, true, nil
	}
	var c cloudEvent
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return Verdict{}, false, fmt.Errorf("event %.200q: %w", m.Data, err)
	}
	v := Verdict{
		ID: c.ID, Source: c.Data.Source, Device: c.Subject, Kind: kindOf(c.Type), Reason: c.Data.Reason, Seq: c.Data.Seq, Epoch: c.Data.Epoch,
		Offset: c.Data.Offset, Time: c.Time, Deadline: c.Data.Deadline, LastSeen: c.Data.LastSeen, HeardSilence: millis(c.Data.HeardSilence),
		Timeout: millis(c.Data.Timeout), Deaf: millis(c.Data.Deaf),
	}
	switch {
	case v.Kind >= SourceDeaf:
		v.Device, v.Source = "", c.Subject
	case !strings.HasPrefix(c.Type, "io.holter.device."):
		return Verdict{}, false, nil
	}
	return v, true, nil
}

func kindOf(eventType string) Kind {
	switch strings.TrimPrefix(eventType, "io.holter.") {
	case "device.online":
		return Online
	case "device.offline":
		return Offline
	case "device.late":
		return Late
	case "device.sleeping":
		return Sleeping
	case "device.session_replaced":
		return Replaced
	case "device.forgotten":
		return Forgotten
	case "source.deaf":
		return SourceDeaf
	case "source.heard":
		return SourceHeard
	}
	return Other
}

// millis turns milliseconds into a Duration.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(min(max(ms, -1e12), 1e12) * float64(time.Millisecond)))
}
