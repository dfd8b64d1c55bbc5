package delivery_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// verifyScript verifies webhooks with the npm packages standardwebhooks and cloudevents. It reads a JSON array and prints what it understood.
const verifyScript = `
const { Webhook } = require("standardwebhooks");
const { HTTP } = require("cloudevents");
const requests = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const { secret, headers, body } of requests) {
	new Webhook(secret).verify(body, headers);
	let refused = false;
	try { new Webhook(secret).verify(body + " ", headers); } catch { refused = true; }
	if (!refused) throw new Error("another body has the same signature");
	const events = [HTTP.toEvent({ headers, body })].flat();
	for (const e of events) { e.validate(); console.log(e.id, e.type, e.subject, e.data.seq); }
}
`

// Libraries of another language take our webhooks, one by one and in batches, with either secret.
func TestOtherLanguage(t *testing.T) {
	testenv.Check(t)
	node, folder := testenv.Node(t, "standardwebhooks")
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	r.endpoint("one", "webhook", rc.URL, `{"secret":"`+secret+`","previous_secret":"`+previous+`"}`)
	r.endpoint("many", "webhook", rc.URL, `{"secret":"`+secret+`","previous_secret":"`+previous+`","batch":50}`)
	r.append("dev-1", "dev-2", "dev-3", "dev-1")
	r.idle()
	type sent struct {
		Secret  string            `json:"secret"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	var all []sent
	events := 0
	for i, q := range rc.got() {
		s := sent{Secret: []string{secret, previous}[i%2], Headers: make(map[string]string), Body: q.body}
		for name := range q.header {
			s.Headers[strings.ToLower(name)] = q.header.Get(name)
		}
		events += strings.Count(q.body, `"specversion"`)
		all = append(all, s)
	}
	input, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", verifyScript)
	cmd.Env = append(os.Environ(), "NODE_PATH="+folder)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if events != 8 || strings.Count(string(out), "\n") != events || !strings.Contains(string(out), "dev-1:2 io.holter.device.offline dev-1 2\n") {
		t.Errorf("of %d events it understood:\n%s", events, out)
	}
}
