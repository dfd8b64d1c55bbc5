package notify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
)

// teams sends an Adaptive Card to a workflow that posts what a webhook gets, whose address is the target:
// https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using.
// The connectors of Office 365 that came before are retired.
type teams struct{ settings }

func (t *teams) check(string) error { return nil }

// A message has 28 KB at most. maxCard is how many bytes of text a card has, in which JSON writes some with
// two, and maxRuns in how many lines.
const (
	maxCard = 6000
	maxRuns = 40
)

// send implements sender. The text is in runs of a RichTextBlock, in which nothing is formatting:
// https://adaptivecards.io/explorer/TextRun.html.
func (t *teams) send(ctx context.Context, a *attempt, m *message) sink.Result {
	color := map[string]string{wording.Firing: "attention", wording.Resolved: "good"}[m.Severity]
	run := func(text string, more object) object {
		more["type"], more["text"] = "TextRun", text
		return object{"type": "RichTextBlock", "inlines": []object{without(more)}}
	}
	body := []object{run(fit{most: 300, size: bytesOf}.text(m.text.Title), object{"size": "medium", "weight": "bolder", "color": color})}
	lines := m.text.Lines
	if n := len(lines) - maxRuns; n > 0 {
		lines = append(slices.Clip(lines[:maxRuns-1]), fmt.Sprintf("… and %d more", n+1))
	}
	for line := range strings.SplitSeq((fit{most: maxCard, size: bytesOf}).lines(lines), "\n") {
		if line != "" {
			body = append(body, run(line, object{}))
		}
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
	if m.URL != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "Open the console", "url": m.URL}}
	}
	return a.post(ctx, a.target, nil, object{
		"type":        "message",
		"attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}},
	})
}
