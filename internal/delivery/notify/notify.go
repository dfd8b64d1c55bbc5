package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/webhook"
	"github.com/holter-iot/holter/internal/delivery/wording"
	"github.com/holter-iot/holter/liveness"
)

// service describes a service.
type service struct {
	target string // the default; empty if there is none
	secret bool   // the target is a secret
	batch  int    // the default
	every  time.Duration
	burst  int // how many requests are sent at once, before one comes every so often
	new    func() sender
}

// services are the services by kind. The rates are below what the services allow.
func services() map[string]service {
	return map[string]service{
		// https://docs.slack.dev/apis/web-api/rate-limits: one a second for each webhook.
		"slack": {secret: true, batch: chat, every: time.Second, burst: 1, new: func() sender { return new(slack) }},
		// https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using: four a second.
		"teams": {secret: true, batch: chat, every: time.Second, burst: 1, new: func() sender { return new(teams) }},
		// Five in two seconds for each webhook, as its headers say: https://discord.com/developers/docs/topics/rate-limits.
		"discord": {secret: true, batch: chat, every: 400 * time.Millisecond, burst: 4, new: func() sender { return new(discord) }},
		// https://core.telegram.org/bots/faq: 20 a minute to a group.
		"telegram": {target: "https://api.telegram.org", batch: chat, every: 3 * time.Second, burst: 1, new: func() sender { return new(telegram) }},
		// https://docs.ntfy.sh/publish/#limitations: 60 at once, then one in five seconds.
		"ntfy":  {secret: true, batch: chat, every: 5 * time.Second, burst: 10, new: func() sender { return new(ntfy) }},
		"email": {batch: chat, every: time.Second, burst: 1, new: func() sender { return new(email) }},
		// https://developer.pagerduty.com/docs/events-api-v2-overview: 120 a minute for each key.
		"pagerduty": {target: "https://events.pagerduty.com/v2/enqueue", batch: 1, every: 500 * time.Millisecond, burst: 10, new: func() sender { return new(pagerduty) }},
		// https://docs.opsgenie.com/docs/api-rate-limiting: it depends on the plan, and its responses say when to come again.
		"opsgenie": {target: "https://api.opsgenie.com/v2/alerts", batch: 1, every: time.Second, burst: 10, new: func() sender { return new(opsgenie) }},
	}
}

// chat is how many messages are told together.
const chat = 20

// sender sends to one service. It embeds settings, and is decoded from an endpoint's.
type sender interface {
	common() *settings
	// check completes and checks settings and target.
	check(target string) error
	// silent reports whether the service is not told a message that is about to be sent: it needs no request.
	silent(m *message) bool
	// send sends a message, and returns what came of it.
	send(ctx context.Context, a *attempt, m *message) sink.Result
}

// settings are those that all services have.
type settings struct {
	sink.Settings

	// Title and Text are templates of package wording. Default: its words.
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
	// Console is the address at which people reach the console, for links to devices. Default: no links.
	Console string `json:"console,omitempty"`
	// Rate is the maximum number of requests per second. Default: that of the service.
	Rate float64 `json:"rate,omitempty"`
}

func (s *settings) common() *settings { return s }

func (s *settings) silent(*message) bool { return false }

// Kinds returns the kinds of endpoints of this package, by name. They connect to what the guard allows.
func Kinds(guard *sink.Guard, agent string) map[string]sink.Kind {
	kinds := make(map[string]sink.Kind)
	for name, s := range services() {
		kinds[name] = func(target string, text json.RawMessage) (sink.Sink, error) {
			return newNotifier(s, guard, agent, target, text)
		}
	}
	return kinds
}

func newNotifier(s service, guard *sink.Guard, agent, target string, text json.RawMessage) (*notifier, error) {
	n := &notifier{service: s, sender: s.new(), guard: guard, target: cmp.Or(target, s.target)}
	n.settings = n.sender.common()
	if err := sink.Decode(text, n.sender); err != nil {
		return nil, err
	}
	err := n.checkTarget()
	if err == nil {
		err = n.sender.check(n.target)
	}
	if err = errors.Join(err, n.setWords(), n.settings.checkRate()); err != nil {
		return nil, err
	}
	n.client = webhook.New(guard, agent)
	n.settings.Batch = cmp.Or(n.settings.Batch, s.batch)
	n.limiter = rate.NewLimiter(rate.Every(s.every), s.burst)
	if n.settings.Rate > 0 {
		n.limiter = rate.NewLimiter(rate.Limit(n.settings.Rate), max(1, min(s.burst, int(n.settings.Rate))))
	}
	return n, nil
}

func (n *notifier) setWords() error {
	var errs [2]error
	n.words, errs[0] = wording.New(n.settings.Title, n.settings.Text)
	n.settings.Console, errs[1] = wording.Console(n.settings.Console)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("settings: %w", err)
		}
	}
	return errors.Join(errs[:]...)
}

// checkTarget checks the target of a service that is spoken to by HTTP. Its error does not show a target
// that is a secret.
func (n *notifier) checkTarget() error {
	if _, mail := n.sender.(*email); mail || n.service.secret && sink.IsCredential(n.target) {
		return nil
	}
	err := webhook.CheckURL(n.target)
	switch {
	case err != nil && n.service.secret:
		return errors.New("target: this is no address to deliver to; want https://HOST/PATH, as the service shows it, or credential:endpoint-NAME")
	case err != nil:
		return fmt.Errorf("target: %w", err)
	}
	return nil
}

func (s *settings) checkRate() error {
	if s.Rate != 0 && !(s.Rate >= 0.001 && s.Rate <= 1000) {
		return fmt.Errorf("settings: rate is %v, want 0.001 to 1000 requests per second", s.Rate)
	}
	return nil
}

// notifier is a sink.
type notifier struct {
	*settings

	service service
	sender  sender
	guard   *sink.Guard
	client  *webhook.Client
	target  string
	words   *wording.Words
	limiter *rate.Limiter
}

// OneAtATime implements [sink.OneAtATime]: while a message is being sent, those that come are told
// together afterwards.
func (n *notifier) OneAtATime() {}

// Close implements [sink.Sink]. It closes the idle connections.
func (n *notifier) Close() error {
	n.client.Close()
	return nil
}

// message is what one request tells.
type message struct {
	*wording.Notification

	text  wording.Text    // once it is sent
	id    string          // of the delivery of the first
	event *liveness.Event // of the first; nil if that is a job
}

// Deliver implements [sink.Sink]. It tells all messages together or, if its batch is 1, one after the
// other. When they are refused for good, perhaps only one of them is to blame: each is then sent alone.
// What the rate does not allow has not failed and is delivered again.
func (n *notifier) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, 0, len(messages))
	limit, refused := n.Batch, false
	for len(messages) > 0 {
		count := min(limit, len(messages))
		m := n.message(messages[:count])
		if n.sender.silent(m) {
			results, messages = append(results, sink.Repeat(count, sink.Result{})...), messages[count:]
			continue
		}
		if wait := n.wait(time.Now(), refused); wait > 0 {
			again := sink.Result{Again: time.Now().Add(wait), After: wait}
			return append(results, sink.Repeat(len(messages), again)...)
		}
		r := n.send(ctx, m)
		if refused = r.Permanent && count > 1; refused {
			limit = 1
			continue
		}
		results, messages = append(results, sink.Repeat(count, r)...), messages[count:]
		if r.Err != nil && !r.Permanent {
			return append(results, sink.Repeat(len(messages), sink.Result{Again: time.Now()})...)
		}
	}
	if last := &results[len(results)-1]; last.After == 0 {
		last.After = n.pause(time.Now())
	}
	return results
}

// wait takes a request from the rate. It returns how long to wait instead if there is none. One that must
// be sent is taken in advance: otherwise messages that are refused together would be tried together again
// and again.
func (n *notifier) wait(now time.Time, must bool) time.Duration {
	if must {
		n.limiter.ReserveN(now, 1)
		return 0
	}
	if n.limiter.AllowN(now, 1) {
		return 0
	}
	return max(n.pause(now), time.Millisecond)
}

// pause returns how long the rate allows no request.
func (n *notifier) pause(now time.Time) time.Duration {
	missing := 1 - n.limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/float64(n.limiter.Limit())*float64(time.Second)) + time.Millisecond // it may be rounded
}

// message returns what tells messages.
func (n *notifier) message(messages []sink.Message) *message {
	list := make([]*wording.Notification, len(messages))
	for i := range messages {
		list[i] = wording.Of(&messages[i], n.Console)
	}
	all := wording.Together(list)
	return &message{Notification: all, id: messages[0].ID, event: messages[0].Event}
}

// send words a message and sends it.
func (n *notifier) send(ctx context.Context, m *message) sink.Result {
	m.text = n.words.Say(m.Notification)
	a := &attempt{client: n.client, guard: n.guard, target: n.target}
	if n.service.secret {
		target, err := a.secret(n.target)
		if err == nil && webhook.CheckURL(target) != nil {
			err = errors.New("the credential of the target is no address to deliver to; want https://HOST/PATH, as the service shows it")
		}
		if err != nil {
			return sink.Result{Err: err}
		}
		a.target = target
	}
	r := n.sender.send(ctx, a, m)
	a.hide(&r)
	return r
}

// attempt is the sending of one message. It knows the secrets that it was made with, and keeps them out
// of what came of it.
type attempt struct {
	client  *webhook.Client
	guard   *sink.Guard
	target  string
	secrets []string
}

// secret returns the secret of a setting, which may be a credential. It is read for each message, so that
// one that was exchanged counts at once.
func (a *attempt) secret(setting string) (string, error) {
	text, err := sink.Secret(setting)
	if err != nil {
		return "", err
	}
	a.secrets = append(a.secrets, text)
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		a.secrets = append(a.secrets, u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery)
	}
	return text, nil
}

// hide removes the secrets from a result: a service may repeat what it was sent.
func (a *attempt) hide(r *sink.Result) {
	var pairs []string
	for _, s := range a.secrets {
		if len(s) < 4 { // a word, which would be found everywhere
			continue
		}
		for _, written := range []string{s, url.QueryEscape(s), url.PathEscape(s)} {
			pairs = append(pairs, written, "(hidden)")
		}
	}
	if len(pairs) == 0 {
		return
	}
	hide := strings.NewReplacer(pairs...)
	r.Response = hide.Replace(r.Response)
	if r.Err != nil {
		r.Err = &hiddenError{hide.Replace(r.Err.Error()), r.Err}
	}
}

// hiddenError is an error whose text shows no secrets.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }

func (e *hiddenError) Unwrap() error { return e.err }
