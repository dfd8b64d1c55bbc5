package score

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// State is a topic with the state of a device, as devices keep it with their last will.
type State struct {
	// Topic has {device} in it, in one of its levels: tele/{device}/state.
	Topic string
	// Online and Offline are the payloads. Others are ignored.
	Online, Offline string
}

// MQTTConfig says where a broker is, and how it publishes the presence of its clients.
type MQTTConfig struct {
	URL            string // tcp://host:1883, ssl://host:8883
	User, Password string
	// ClientID defaults to one by chance.
	ClientID string
	// State is the topic to read. Default: what EMQX says under $SYS of its clients, whose ids are the
	// devices. By default it lets only clients on its own host read that.
	State State
	// ClockSkew is how far the broker's clock is ahead of the one of this machine. Default: not at
	// all.
	ClockSkew time.Duration
	// Timeout is for an answer of the broker. Default 10 s.
	Timeout time.Duration
}

// MQTT is a [Follower] of a broker's messages. Nothing is known of what was said while it had no
// connection, so it says Missed after one that broke.
type MQTT struct {
	config        MQTTConfig
	filters       map[string]byte
	before, after string // what is around {device} in the topic of the state
}

const emqxClients = "$SYS/brokers/+/clients/+/"

// NewMQTT checks a configuration. It connects nowhere.
func NewMQTT(cfg MQTTConfig) (*MQTT, error) {
	m := &MQTT{config: cfg, filters: map[string]byte{emqxClients + "connected": 1, emqxClients + "disconnected": 1}}
	if cfg.Timeout == 0 {
		m.config.Timeout = 10 * time.Second
	}
	if cfg.ClientID == "" {
		m.config.ClientID = fmt.Sprintf("score-%x", time.Now().UnixNano())
	}
	var errs []error
	if cfg.URL == "" {
		errs = append(errs, errors.New("score: the broker has no URL; give one as in tcp://127.0.0.1:1883"))
	}
	if s := cfg.State; s.Topic != "" {
		var ok bool
		m.before, m.after, ok = strings.Cut(s.Topic, "{device}")
		if !ok || strings.ContainsAny(m.before+m.after, "+#{}") {
			errs = append(errs, fmt.Errorf("score: topic %q must have {device} in it once, and neither wildcards nor other braces; write it as in tele/{device}/state", s.Topic))
		}
		if s.Online == s.Offline {
			errs = append(errs, fmt.Errorf("score: topic %q: %q cannot mean both online and offline; give the two payloads", s.Topic, s.Online))
		}
		m.filters = map[string]byte{filterOf(s.Topic): 1}
	}
	return m, errors.Join(errs...)
}

// filterOf returns what to subscribe to; MQTT has wildcards for whole levels only.
func filterOf(topic string) string {
	levels := strings.Split(topic, "/")
	for i, l := range levels {
		if strings.Contains(l, "{device}") {
			levels[i] = "+"
		}
	}
	return strings.Join(levels, "/")
}

// queued bounds the messages that were read and not passed on yet. When full, the broker waits.
const queued = 1 << 16

// Follow implements [Follower]. It fails if there is no connection at first, or the broker refuses a
// subscription.
func (m *MQTT) Follow(ctx context.Context, tell func(Verdict)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &mqttFollow{MQTT: m, ctx: ctx, queue: make(chan Verdict, queued), failed: make(chan error, 1)}
	client := paho.NewClient(f.options())
	t := client.Connect()
	defer client.Disconnect(50)
	if err := m.wait(ctx, t); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("follow %s: connect: %w", m.config.URL, err)
	}
	for {
		select {
		case v := <-f.queue:
			tell(v)
		case err := <-f.failed:
			return fmt.Errorf("follow %s: %w", m.config.URL, err)
		case <-ctx.Done():
			return nil
		}
	}
}

// wait waits for the broker's answer.
func (m *MQTT) wait(ctx context.Context, t paho.Token) error {
	late := time.NewTimer(m.config.Timeout)
	defer late.Stop()
	select {
	case <-t.Done():
		return t.Error()
	case <-late.C:
		return fmt.Errorf("no answer from the broker within %v", m.config.Timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mqttFollow is one call of Follow.
type mqttFollow struct {
	*MQTT

	ctx    context.Context //nolint:containedctx // of the call that this is
	queue  chan Verdict    // never closed
	failed chan error      // room for one; never closed
	again  bool            // used by the connect handler only, one call after the other
}

func (f *mqttFollow) options() *paho.ClientOptions {
	o := paho.NewClientOptions().AddBroker(f.config.URL).SetClientID(f.config.ClientID).SetProtocolVersion(4).SetCleanSession(true)
	o.SetUsername(f.config.User).SetPassword(f.config.Password)
	o.SetConnectTimeout(f.config.Timeout).SetKeepAlive(30 * time.Second).SetMaxReconnectInterval(2 * time.Second)
	o.SetDefaultPublishHandler(func(_ paho.Client, msg paho.Message) {
		if v, ok := f.parse(msg.Topic(), msg.Payload(), msg.Retained()); ok {
			v.Seen = time.Now()
			if !v.Time.IsZero() {
				v.Time = v.Time.Add(-f.config.ClockSkew)
			}
			f.put(v)
		}
	})
	o.SetConnectionLostHandler(func(_ paho.Client, err error) {
		f.put(Verdict{Kind: Broken, Reason: err.Error(), Seen: time.Now()})
	})
	o.SetOnConnectHandler(func(c paho.Client) { f.subscribe(c) })
	return o
}

func (f *mqttFollow) put(v Verdict) {
	v.URL = f.config.URL
	select {
	case f.queue <- v:
	case <-f.ctx.Done():
	}
}

// subscribe is called after each connect, on a goroutine of its own.
func (f *mqttFollow) subscribe(c paho.Client) {
	t := c.SubscribeMultiple(f.filters, nil)
	if err := f.wait(f.ctx, t); err != nil {
		if c.IsConnectionOpen() && f.ctx.Err() == nil {
			f.fail(fmt.Errorf("subscribe: %w", err))
		}
		return // else it comes again with the next connection
	}
	for name, code := range t.(*paho.SubscribeToken).Result() {
		if code >= 0x80 {
			f.fail(fmt.Errorf("the broker refuses to let this user read %s; give it the right to (ACL)", name))
			return
		}
	}
	if f.again {
		f.put(Verdict{Kind: Missed, Seen: time.Now()})
	}
	f.again = true
	f.put(Verdict{Kind: Following, Seen: time.Now()})
}

func (f *mqttFollow) fail(err error) {
	select {
	case f.failed <- err:
	default: // one is enough
	}
}

// parse turns a message into a verdict; false if it is none.
func (m *MQTT) parse(topic string, payload []byte, retained bool) (Verdict, bool) {
	state := &m.config.State
	if state.Topic == "" {
		return parseEMQX(topic, payload)
	}
	rest, ok := strings.CutPrefix(topic, m.before)
	id, also := strings.CutSuffix(rest, m.after)
	v := Verdict{Device: id, Kind: Online, Retained: retained}
	if string(payload) == state.Offline {
		v.Kind = Offline
	}
	known := string(payload) == state.Online || string(payload) == state.Offline
	return v, ok && also && known && id != "" && !strings.Contains(id, "/")
}

// parseEMQX reads what EMQX says of a client:
// https://docs.emqx.com/en/emqx/latest/observability/mqtt-system-topics.html.
func parseEMQX(topic string, payload []byte) (Verdict, bool) {
	var c struct {
		ClientID     string `json:"clientid"`
		Time         int64  `json:"ts"` // milliseconds
		Reason       string `json:"reason"`
		Disconnected int64  `json:"disconnected_at"`
	}
	if json.Unmarshal(payload, &c) != nil || c.ClientID == "" {
		return Verdict{}, false
	}
	v := Verdict{Device: c.ClientID, Kind: Online, Source: "emqx"}
	if c.Time > 0 {
		v.Time = time.UnixMilli(c.Time).Add(time.Millisecond - 1) // what was cut off must not make it early
	}
	if strings.HasSuffix(topic, "/connected") {
		return v, true
	}
	v.Kind = Offline
	switch c.Reason {
	case "normal":
		v.Reason = ReasonBye
	case "keepalive_timeout":
		v.Reason = ReasonSilence
	case "takenover", "takeovered", "discarded": // it is on another connection already
		v.Kind = Replaced
	default:
		v.Reason = ReasonClosed
	}
	return v, true
}
