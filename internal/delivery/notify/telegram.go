package notify

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// telegram sends as a bot: https://core.telegram.org/bots/api#sendmessage. The target is the server of
// the API, without a path.
type telegram struct {
	settings

	Token string `json:"token,omitempty"`
	// Chat is the number of a chat, or @NAME of a channel.
	Chat chatID `json:"chat,omitempty"`
}

// chatID is the number of a chat, which people write with or without quotes, or a name.
type chatID string

// UnmarshalJSON implements json.Unmarshaler.
func (c *chatID) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		var n json.Number
		if err := json.Unmarshal(text, &n); err != nil {
			return errors.New("want the number of a chat, or @NAME of a channel")
		}
		s = n.String()
	}
	*c = chatID(s)
	return nil
}

func (t *telegram) check(string) error {
	if t.Token == "" || t.Chat == "" {
		return errors.New("settings: want token, which @BotFather shows, and chat, the number of a chat or @NAME of a channel")
	}
	return nil
}

// send implements sender. A text without a parse mode has no formatting, and 4,096 characters at most.
func (t *telegram) send(ctx context.Context, a *attempt, m *message) sink.Result {
	token, err := a.secret(t.Token)
	if err != nil {
		return sink.Result{Err: err}
	}
	lines := append([]string{fit{most: 300}.text(m.text.Title)}, m.text.Lines...)
	end := ""
	if m.URL != "" {
		end = "\n" + m.URL
	}
	address := strings.TrimSuffix(a.target, "/") + "/bot" + url.PathEscape(token) + "/sendMessage"
	r := a.post(ctx, address, nil, object{
		"chat_id": string(t.Chat), "text": fit{most: 4096 - units(end)}.lines(lines) + end, "link_preview_options": object{"is_disabled": true},
	})
	var problem struct {
		Parameters struct {
			RetryAfter int `json:"retry_after"`
		}
	}
	if json.Unmarshal([]byte(r.Response), &problem) == nil && r.Err != nil && problem.Parameters.RetryAfter > 0 {
		r.After = min(time.Duration(problem.Parameters.RetryAfter)*time.Second, 24*time.Hour)
	}
	return r
}
