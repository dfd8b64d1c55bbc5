package score

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/sse"
)

const maxMessage = 1 << 20 // bytes

// HTTPConfig says where Holter's HTTP API is.
type HTTPConfig struct {
	// URL is the address of the API, as in http://127.0.0.1:8080.
	URL string
	// Token is sent with each request; "" sends none.
	Token string
	// Oldest begins with the oldest event that the gateway has. Default: with those from now on.
	Oldest bool
	// ClockSkew is how far the gateway's clock is ahead of the one of this machine. Default: it is
	// measured, again and again.
	ClockSkew *time.Duration
	// Retry is the pause after a broken connection. Default 200 ms.
	Retry time.Duration
	// Quiet is how long nothing may arrive before a connection counts as broken. Holter sends
	// something every 15 s. Default 45 s.
	Quiet time.Duration
	// Dial connects. Default: by the network, as a [net.Dialer] does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// HTTP is a [Follower] of the event stream of Holter's HTTP API.
type HTTP struct {
	config HTTPConfig
	client *http.Client
}

// NewHTTP checks a configuration. It connects nowhere.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	cfg.Retry = cmp.Or(cfg.Retry, 200*time.Millisecond)
	cfg.Quiet = cmp.Or(cfg.Quiet, 45*time.Second)
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	u, err := url.Parse(cfg.URL)
	switch {
	case cfg.URL == "":
		return nil, errors.New("score: there is no URL; give that of Holter's HTTP API, as in http://127.0.0.1:8080")
	case err != nil:
		return nil, fmt.Errorf("score: %w; write it as in http://127.0.0.1:8080", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("score: %q is no address of an HTTP API; write it as in http://127.0.0.1:8080", cfg.URL)
	}
	cfg.URL = strings.TrimSuffix(cfg.URL, "/")
	return &HTTP{config: cfg, client: &http.Client{Transport: &http.Transport{
		ResponseHeaderTimeout: 10 * time.Second, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 5 * time.Second, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return noting(cfg.Dial(ctx, network, address))
		},
	}}}, nil
}

// Follow implements [Follower]. tell is called by three goroutines, two of which only report clocks.
// It fails if the address cannot be followed at all: nothing answers the first attempt, or
// the token is refused, now or later.
func (h *HTTP) Follow(ctx context.Context, tell func(Verdict)) error {
	defer h.client.CloseIdleConnections()
	s := &stream{HTTP: h, tell: tell}
	s.clock = newClockwork(s)
	all, ctx := errgroup.WithContext(ctx)
	if s.clock.begin(ctx) {
		all.Go(func() error { return s.clock.run(ctx) })
	}
	all.Go(func() error { return s.run(ctx) })
	all.Go(func() error { return s.watchClocks(ctx) })
	return all.Wait()
}

// Knows asks whether a device was heard since an instant of the gateway's clock, and is held to be
// online, or was until another one.
func (h *HTTP) Knows(ctx context.Context, device string, since, until time.Time) (bool, error) {
	var answer struct {
		State    string    `json:"state"`
		LastSeen time.Time `json:"last_seen"`
		Since    time.Time `json:"since"`
	}
	err := h.ask(ctx, askTimeout, "/v1/devices/"+url.PathEscape(device), &answer)
	if errors.Is(err, errUnknown) {
		return false, nil
	}
	here := answer.State == "online" || answer.State == "late" || answer.State == "sleeping" ||
		answer.State == "offline" && !answer.Since.Before(until)
	return err == nil && here && !answer.LastSeen.Before(since), err
}

// askTimeout is how long the answer to a question may take.
const askTimeout = 10 * time.Second

// errUnknown is wrapped by errors that say that there is no such thing.
var errUnknown = errors.New("not found")

// ask asks the API for something.
func (h *HTTP) ask(ctx context.Context, within time.Duration, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := h.request(ctx, path)
	if err != nil {
		return err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", errUnknown, refusal(resp))
	default:
		return refusal(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage)) // all, so that the connection can be used again
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("the answer to %s cannot be read: %w", path, err)
	}
	return nil
}

// request asks for something, with the token if there is one.
func (h *HTTP) request(ctx context.Context, path string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.config.URL+path, nil)
	if err == nil && h.config.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.config.Token)
	}
	return req, err
}

// stream is one call of Follow.
type stream struct {
	*HTTP

	tell  func(Verdict)
	place uint64 // offset of what was read last
	known bool   // place is known
	began bool   // it was followed once
	asked bool   // which sources were deaf before
	// following reports whether the place where the current connection begins is known.
	following bool
	clock     *clockwork
	arrivals  *arrivals // the connection
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
			return fmt.Errorf("follow %s: %w", s.config.URL, err)
		case s.following:
			s.tell(Verdict{URL: s.config.URL, Kind: Broken, Reason: err.Error(), Seen: time.Now()})
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
	d := sse.NewDecoder(readerFunc(func(p []byte) (int, error) {
		n, err := resp.Body.Read(p)
		quiet.Reset(s.config.Quiet)
		return n, err
	}), maxMessage)
	if s.config.Oldest && !s.known {
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
		v.URL, v.Seen, v.Came = s.config.URL, time.Now(), time.Unix(0, s.arrivals.since.Load())
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
	s.tell(Verdict{URL: s.config.URL, Kind: Following, Offset: s.place, Full: true, Seen: time.Now()})
	return s.deafBefore(ctx)
}

// inTurn tells of offsets that do not follow the one before: without a filter the stream has each
// of them.
func (s *stream) inTurn(m *sse.Message, offset uint64) {
	next := s.place + 1
	if m.Data == nil {
		next = s.place
	}
	v := Verdict{URL: s.config.URL, Offset: offset, Seen: time.Now()}
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
	if s.config.Oldest {
		address += "?after=0"
	}
	req, err := s.request(traced(ctx, func(a *arrivals) { s.arrivals = a }), address)
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
func parse(m sse.Message) (Verdict, bool, error) {
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

// kindOf returns what an event of a type says.
func kindOf(eventType string) Kind {
	return map[string]Kind{
		"device.online": Online, "device.offline": Offline, "device.late": Late, "device.sleeping": Sleeping,
		"device.session_replaced": Replaced, "device.forgotten": Forgotten, "source.deaf": SourceDeaf, "source.heard": SourceHeard,
	}[strings.TrimPrefix(eventType, "io.holter.")]
}

// millis turns milliseconds into a Duration.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(min(max(ms, -1e12), 1e12) * float64(time.Millisecond)))
}
