package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
)

// discord sends to a webhook, whose address is the target:
// https://discord.com/developers/docs/resources/webhook#execute-webhook.
type discord struct{ settings }

func (d *discord) check(string) error { return nil }

// send implements sender. An embed has a title of 256 characters and a description of 4,096, at most.
// Mentions are off, whatever the text has.
func (d *discord) send(ctx context.Context, a *attempt, m *message) sink.Result {
	color := map[string]int{wording.Firing: 0xd92d20, wording.Resolved: 0x12a150, wording.Info: 0x667085}[m.Severity]
	r := a.post(ctx, a.target, nil, object{
		"embeds": []object{without(object{
			"title":       fit{most: 256, escape: markdown}.text(m.text.Title),
			"description": fit{most: 4096, escape: markdown}.lines(m.text.Lines), "url": m.URL, "color": color,
		})},
		"allowed_mentions": object{"parse": []string{}},
	})
	if r.Status == http.StatusNotFound && deleted(r.Response) {
		r.Gone = true
	}
	return r
}

// deleted reports whether a response says that there is no such webhook any more:
// https://discord.com/developers/docs/topics/opcodes-and-status-codes#json.
func deleted(response string) bool {
	var problem struct{ Code int }
	return json.Unmarshal([]byte(response), &problem) == nil && problem.Code == 10015
}

// markdown escapes what Discord takes for formatting, a mention or a link.
func markdown(r rune) string {
	if strings.ContainsRune("\\`*_{}[]()#+-.!|<>~:@", r) {
		return `\` + string(r)
	}
	return string(r)
}
