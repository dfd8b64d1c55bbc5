package notify

import (
	"context"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// slack sends to an incoming webhook, whose address is the target:
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. Mattermost and Rocket.Chat take the
// same.
type slack struct{ settings }

func (s *slack) check(string) error { return nil }

// send implements sender. A section has 3,000 characters at most, see
// https://docs.slack.dev/reference/block-kit/blocks/section-block. Only &, < and > can begin a mention or
// a link (https://docs.slack.dev/messaging/formatting-message-text#escaping), and verbatim keeps names of
// channels from becoming links.
func (s *slack) send(ctx context.Context, a *attempt, m *message) sink.Result {
	title := fit{most: 300, escape: entity}.text(m.text.Title)
	shown := "*" + title + "*"
	if m.URL != "" {
		shown = "*<" + fit{most: 2000, escape: entity}.text(m.URL) + "|" + title + ">*"
	}
	if text := (fit{most: 3000 - 1 - units(shown), escape: entity}).lines(m.text.Lines); text != "" {
		shown += "\n" + text
	}
	return a.post(ctx, a.target, nil, object{
		"text":   title, // what a notification on a phone shows
		"mrkdwn": false,
		"blocks": []object{{"type": "section", "text": object{"type": "mrkdwn", "text": shown, "verbatim": true}}},
	})
}

// entity escapes what Slack takes for the beginning of a mention or of a link. A character of the
// formatting cannot be escaped there; it does no harm.
func entity(r rune) string {
	switch r {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	}
	return string(r)
}
