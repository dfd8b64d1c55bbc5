package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/score"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Follower is a [score.Follower] with the place that it reads from, for people. [Follow] and [FollowLog] make one.
type Follower struct {
	score.Follower

	URL string
	// Knows reports whether the server heard a device since an instant of its clock, and holds it to
	// be online, or did until another. It is called at the end, when the connections are closed,
	// concurrently, for devices without any event: a server that knew the same devices a moment before
	// the run has no reason to send one.
	// Default: a device without an event is a mistake.
	Knows func(ctx context.Context, device string, since, until time.Time) (bool, error)
}

// Follow returns a follower of the server at a URL: http:// and https:// are the API of holter, with a token that may
// read events, or ""; mqtt:// is a broker that keeps the states of the devices at the plan's WillTopic; emqx:// is an
// EMQX that says which clients are connected. The plan's User and Token are for the broker. skew is how far the
// server's clock is ahead of this one's; nil: it is measured, or none at a broker. Follow connects nowhere.
func Follow(url string, p *Plan, token string, skew *time.Duration) (Follower, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	if scheme != "mqtt" && scheme != "emqx" {
		h, err := score.NewHTTP(score.HTTPConfig{URL: url, Token: token, ClockSkew: skew})
		if err != nil {
			return Follower{}, err
		}
		return Follower{Follower: h, URL: url, Knows: h.Knows}, nil
	}
	cfg := score.MQTTConfig{URL: "tcp://" + strings.TrimSuffix(rest, "/"), User: p.User, Password: p.Token}
	if skew != nil {
		cfg.ClockSkew = *skew
	}
	if scheme == "mqtt" {
		if p.WillTopic == "" {
			return Follower{}, fmt.Errorf("%q: %w", url, ErrWillTopic)
		}
		cfg.State = score.State{Topic: p.WillTopic, Online: p.BirthPayload, Offline: p.WillPayload}
	}
	m, err := score.NewMQTT(cfg)
	return Follower{Follower: m, URL: url}, err
}

// ErrWillTopic is wrapped by what [Follow] returns for a broker if the plan has no topic of states.
var ErrWillTopic = errors.New("loadgen: the plan has no WillTopic, which is the topic with the states of the devices")

// FollowLog returns a follower of a registry in this process: of the events in the log that is its sink.
func FollowLog(events *eventlog.Log) Follower {
	return Follower{Follower: score.NewLog(events), URL: "this process"}
}
