package notify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// rules collects what is wrong with a request, by the documentation of its service.
type rules struct{ errs []error }

func (r *rules) want(ok bool, format string, args ...any) {
	if !ok {
		r.errs = append(r.errs, fmt.Errorf(format, args...))
	}
}

// text checks the length of a text in UTF-16, which is the strictest count, and that it was not cut within
// a character.
func (r *rules) text(name, text string, least, most int) {
	n := len(utf16.Encode([]rune(text)))
	r.want(n >= least && n <= most, "%s has %d characters, want %d to %d", name, n, least, most)
	r.want(utf8.ValidString(text) && !strings.Contains(text, "\ufffd"), "%s was cut within a character: %q", name, text)
}

func (r *rules) url(name, text string) {
	u, err := url.Parse(text)
	r.want(err == nil && u.Scheme == "https" && u.Host != "", "%s is %q, no URL", name, text)
}

func (r *rules) oneOf(name, value string, allowed ...string) {
	r.want(slices.Contains(allowed, value), "%s is %q, want one of %q", name, value, allowed)
}

// decode reads a body in which only the fields of the type may be.
func (r *rules) decode(body []byte, into any) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *rules) err() error { return errors.Join(r.errs...) }

// call is a request that a service got.
type call struct {
	path, query, authorization string
	body                       []byte
}

// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks,
// https://docs.slack.dev/reference/block-kit/blocks/section-block (3,000 characters),
// https://docs.slack.dev/reference/block-kit/blocks (50 blocks),
// https://docs.slack.dev/reference/methods/chat.postMessage#truncating (40,000 characters),
// https://docs.slack.dev/messaging/formatting-message-text#escaping.
func slackRules(c *call) error {
	var r rules
	var m struct {
		Text   string
		Mrkdwn bool
		Blocks []struct {
			Type string
			Text struct {
				Type     string
				Text     string
				Verbatim bool
			}
		}
	}
	r.decode(c.body, &m)
	r.text("text", m.Text, 1, 40_000)
	r.want(len(m.Blocks) >= 1 && len(m.Blocks) <= 50, "%d blocks", len(m.Blocks))
	escaped := func(text string) bool {
		for _, piece := range strings.Split(text, "&")[1:] {
			if !strings.HasPrefix(piece, "amp;") && !strings.HasPrefix(piece, "lt;") && !strings.HasPrefix(piece, "gt;") {
				return false
			}
		}
		return !strings.ContainsAny(text, "<>")
	}
	r.want(escaped(m.Text), "text %q", m.Text)
	for _, b := range m.Blocks {
		r.oneOf("type", b.Type, "section")
		r.oneOf("text.type", b.Text.Type, "mrkdwn")
		r.text("text.text", b.Text.Text, 1, 3000)
		text := b.Text.Text
		if rest, ok := strings.CutPrefix(text, "*<https://h.example/console/"); ok { // the only link that it may have
			link, after, _ := strings.Cut(rest, "|")
			title, more, closed := strings.Cut(after, ">*")
			r.want(closed, "a link that does not end: %q", text)
			text = link + title + more
		}
		r.want(escaped(text), "it mentions or links: %q", b.Text.Text)
	}
	return r.err()
}

// https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using,
// https://learn.microsoft.com/connectors/teams/#known-issues-and-limitations (28 KB),
// http://adaptivecards.io/schemas/adaptive-card.json.
func teamsRules(c *call) error {
	var r rules
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			ContentURL  *string
			Content     struct {
				Schema  string `json:"$schema"`
				Type    string
				Version string
				Body    []struct {
					Type    string
					Inlines []struct{ Type, Text, Size, Weight, Color string }
				}
				Actions []struct{ Type, Title, URL string }
			}
		}
	}
	r.decode(c.body, &m)
	r.want(len(c.body) <= 28*1024, "it has %d bytes", len(c.body))
	r.oneOf("type", m.Type, "message")
	if r.want(len(m.Attachments) == 1, "%d attachments", len(m.Attachments)); len(m.Attachments) == 1 {
		a := m.Attachments[0]
		r.oneOf("contentType", a.ContentType, "application/vnd.microsoft.card.adaptive")
		r.want(a.ContentURL == nil, "contentUrl")
		r.oneOf("content.type", a.Content.Type, "AdaptiveCard")
		r.want(len(a.Content.Body) >= 1, "an empty card")
		for _, b := range a.Content.Body {
			r.oneOf("body.type", b.Type, "RichTextBlock")
			for _, run := range b.Inlines {
				r.oneOf("inlines.type", run.Type, "TextRun")
				r.oneOf("size", run.Size, "", "default", "small", "medium", "large", "extraLarge")
				r.oneOf("weight", run.Weight, "", "default", "lighter", "bolder")
				r.oneOf("color", run.Color, "", "default", "dark", "light", "accent", "good", "warning", "attention")
				r.text("text", run.Text, 1, 28*1024)
			}
		}
		for _, action := range a.Content.Actions {
			r.oneOf("actions.type", action.Type, "Action.OpenUrl")
			r.url("url", action.URL)
		}
	}
	return r.err()
}

// https://discord.com/developers/docs/resources/webhook#execute-webhook,
// https://discord.com/developers/docs/resources/message#embed-object-embed-limits (10 embeds of 6,000
// characters together), https://discord.com/developers/docs/resources/message#allowed-mentions-object.
func discordRules(c *call) error {
	var r rules
	var m struct {
		Content string
		Embeds  []struct {
			Title, Description, URL string
			Color                   int
		}
		Mentions *struct{ Parse []string } `json:"allowed_mentions"`
	}
	r.decode(c.body, &m)
	r.want(m.Mentions != nil && m.Mentions.Parse != nil && len(m.Mentions.Parse) == 0, "mentions are allowed: %s", c.body)
	r.text("content", m.Content, 0, 2000)
	r.want(m.Content != "" || len(m.Embeds) > 0 && len(m.Embeds) <= 10, "%d embeds", len(m.Embeds))
	var all strings.Builder
	for _, e := range m.Embeds {
		r.text("title", e.Title, 1, 256)
		r.text("description", e.Description, 0, 4096)
		r.want(e.Color >= 0 && e.Color <= 0xffffff, "color %d", e.Color)
		if e.URL != "" {
			r.url("url", e.URL)
		}
		for _, text := range []string{e.Title, e.Description} {
			bare := strings.NewReplacer(`\\`, "", "\\`", "", `\*`, "", `\_`, "", `\<`, "", `\>`, "", `\@`, "", `\[`, "", `\]`, "", `\~`, "", `\|`, "").Replace(text)
			r.want(!strings.ContainsAny(bare, "`*_<>@[]~|"), "it is formatted: %q", text)
		}
		all.WriteString(e.Title + e.Description)
	}
	r.text("all embeds", all.String(), 1, 6000)
	return r.err()
}

// https://core.telegram.org/bots/api#sendmessage.
func telegramRules(c *call) error {
	var r rules
	var m struct {
		ChatID  string `json:"chat_id"`
		Text    string
		Preview struct {
			Disabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
	}
	r.decode(c.body, &m)
	r.oneOf("path", c.path, "/bot123:SECRET-token/sendMessage")
	r.oneOf("chat_id", m.ChatID, "-100123")
	r.text("text", m.Text, 1, 4096)
	return r.err()
}

// https://docs.ntfy.sh/publish/#publish-as-json, https://docs.ntfy.sh/publish/#limitations (4,096 bytes).
func ntfyRules(c *call) error {
	var r rules
	var m struct {
		Topic, Title, Message, Click string
		Priority                     int
		Tags                         []string
	}
	r.decode(c.body, &m)
	r.oneOf("path", c.path, "/")
	r.oneOf("topic", m.Topic, "SECRET-topic")
	r.oneOf("Authorization", c.authorization, "Bearer SECRET-token")
	r.text("title", m.Title, 1, 250)
	r.text("message", m.Message, 1, 4096)
	r.want(len(m.Message) <= 4096, "message has %d bytes", len(m.Message))
	r.want(m.Priority >= 1 && m.Priority <= 5, "priority %d", m.Priority)
	if m.Click != "" {
		r.url("click", m.Click)
	}
	return r.err()
}

// https://developer.pagerduty.com/docs/send-alert-event, and the schema of
// https://github.com/PagerDuty/api-schema (reference/events-v2): dedup_key 255, summary 1,024 characters.
func pagerdutyRules(c *call) error {
	var r rules
	var m struct {
		RoutingKey  string `json:"routing_key"`
		EventAction string `json:"event_action"`
		DedupKey    string `json:"dedup_key"`
		Client      string
		ClientURL   string `json:"client_url"`
		Links       []struct{ Href, Text string }
		Payload     *struct {
			Summary, Source, Severity, Timestamp, Component, Group, Class string
			Details                                                       map[string]any `json:"custom_details"`
		}
	}
	r.decode(c.body, &m)
	r.want(len(c.body) <= 512*1024, "it has %d bytes", len(c.body))
	r.oneOf("routing_key", m.RoutingKey, "SECRET-key")
	r.oneOf("event_action", m.EventAction, "trigger", "resolve")
	r.text("dedup_key", m.DedupKey, 1, 255)
	if r.want(m.Payload != nil || m.EventAction == "resolve", "no payload"); m.Payload != nil {
		r.text("summary", m.Payload.Summary, 1, 1024)
		r.text("source", m.Payload.Source, 1, 255)
		r.oneOf("severity", m.Payload.Severity, "critical", "error", "warning", "info")
	}
	for _, l := range m.Links {
		r.url("href", l.Href)
	}
	return r.err()
}

// https://docs.opsgenie.com/docs/alert-api#create-alert and #close-alert.
func opsgenieRules(c *call) error {
	var r rules
	r.oneOf("Authorization", c.authorization, "GenieKey SECRET-key")
	if alias, ok := strings.CutSuffix(strings.TrimPrefix(c.path, "/v2/alerts/"), "/close"); ok {
		var m struct{ User, Note, Source string }
		r.decode(c.body, &m)
		r.oneOf("query", c.query, "identifierType=alias")
		r.text("alias", alias, 1, 512)
		r.text("note", m.Note, 0, 25_000)
		r.text("source", m.Source, 0, 100)
		return r.err()
	}
	var m struct {
		Message, Alias, Description, Entity, Source, Priority string
		Details                                               map[string]string
	}
	r.decode(c.body, &m)
	r.oneOf("path", c.path, "/v2/alerts")
	r.text("message", m.Message, 1, 130)
	r.text("alias", m.Alias, 1, 512)
	r.text("description", m.Description, 0, 15_000)
	r.text("entity", m.Entity, 0, 512)
	r.text("source", m.Source, 0, 100)
	r.oneOf("priority", m.Priority, "P1", "P2", "P3", "P4", "P5")
	details, _ := json.Marshal(m.Details)
	r.text("details", string(details), 0, 8000)
	return r.err()
}
