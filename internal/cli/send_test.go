package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// sendServer notes what it is asked to send.
func sendServer(t *testing.T) (api string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/devices/{id}/send", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, r.PathValue("id")+" "+string(body))
		switch r.PathValue("id") {
		case "nobody":
			problem(404, "no such device")(w, r)
		case "away":
			problem(409, "the device is not connected; it was heard last at gateway")(w, r)
		case "other":
			answer(200, "application/json", `{"ok":true}`)(w, r)
		case "udp":
			answer(200, "application/json", `{"written":true,"bytes":34,"protocol":"line","acknowledged":true,"at":"2026-01-02T03:04:05Z"}`)(w, r)
		default:
			answer(200, "application/json", `{"written":true,"bytes":1234,"protocol":"line","at":"2026-01-02T03:04:05Z"}`)(w, r)
		}
	})
	return serveTest(t, mux), asked
}

// sendLine runs holter send with arguments and an input.
func sendLine(ctx context.Context, t *testing.T, in io.Reader, args ...string) typed {
	t.Helper()
	var c struct {
		Send sendCommand `cmd:""`
	}
	parser, err := kong.New(&c, kong.Name("holter"))
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	if _, err := parse(parser, append([]string{"send"}, args...)); err != nil {
		return typed{exitUsage, "", err.Error()}
	}
	api, err := c.Send.ProvideClient()
	if err == nil {
		err = c.Send.run(ctx, api, in, output{&stdout, &stderr})
	}
	code := conclude(ctx, err, &stderr)
	return typed{code, stdout.String(), stderr.String()}
}

func TestSendCommand(t *testing.T) {
	const done = "a/1 was sent 1,234 bytes (line)\n"
	tests := []struct {
		name   string
		args   []string
		stdin  string
		asked  string // of the API
		stdout string
		stderr string // a part of it
		code   int
	}{
		{"text", []string{"a/1", "open the \"valve\""}, "", `a/1 {"text":"open the \"valve\"","timeout":"5s"}`, done, "", 0},
		{"acknowledged", []string{"udp", "open"}, "", `udp {"text":"open","timeout":"5s"}`, "udp was sent 34 bytes (line) and has confirmed it\n", "", 0},
		{"stdin", []string{"a/1", "-"}, "open\r\n", `a/1 {"text":"open","timeout":"5s"}`, done, "", 0},
		{"two lines", []string{"a/1", "-"}, "a\nb\n", `a/1 {"text":"a\nb","timeout":"5s"}`, done, "", 0},
		{"minus", []string{"a/1", "--", "-x"}, "", `a/1 {"text":"-x","timeout":"5s"}`, done, "", 0},
		{"hex", []string{"a/1", "--hex", "01 03\t00ff"}, "", `a/1 {"hex":"010300ff","timeout":"5s"}`, done, "", 0},
		{"base64", []string{"--base64", "a/1", "-", "--timeout=1m"}, "AP\nA=\n", `a/1 {"base64":"APA=","timeout":"1m0s"}`, done, "", 0},
		{"both", []string{"a/1", "--hex", "--base64", "00"}, "", "", "", "--hex and --base64 can't be used together", exitUsage},
		{"no hex", []string{"a/1", "--hex", "0x01"}, "", "", "", "holter: the message: encoding/hex: invalid byte", exitUsage},
		{"no base64", []string{"a/1", "--base64", "A"}, "", "", "", "holter: the message: illegal base64 data", exitUsage},
		{"no text", []string{"a/1", "\xff"}, "", "", "", "holter: the message: the text is not UTF-8; send bytes with --hex or --base64", exitUsage},
		{"empty", []string{"a/1", "-"}, "\n", "", "", "holter: the message is empty", exitUsage},
		{"blank hex", []string{"a/1", "--hex", " "}, "", "", "", "holter: the message is empty", exitUsage},
		{"no device", []string{"", "x"}, "", "", "", "holter: the device id is empty", exitUsage},
		{"too much", []string{"a/1", "-"}, strings.Repeat("x", maxTyped+1), "", "", "holter: the message is longer than 256 KiB", exitUsage},
		{"too long a timeout", []string{"a/1", "x", "--timeout=61s"}, "", "", "", "--timeout: 1m1s is not above 0 and at most 1m", exitUsage},
		{"no timeout", []string{"a/1", "x", "--timeout=0s"}, "", "", "", "--timeout: 0s is not above 0", exitUsage},
		{"unknown", []string{"nobody", "x"}, "", `nobody {"text":"x","timeout":"5s"}`, "", `holter: unknown device "nobody": no such device`, exitFailed},
		{"away", []string{"away", "x"}, "", `away {"text":"x","timeout":"5s"}`, "", "answers 409 Conflict: the device is not connected; it was heard last at gateway", exitFailed},
		{"stranger", []string{"other", "x"}, "", `other {"text":"x","timeout":"5s"}`, "", "not an answer of holter's API (200 OK, application/json); is --api right?", exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api, asked := sendServer(t)
			t.Setenv("HOLTER_API", api)
			got := sendLine(t.Context(), t, strings.NewReader(tt.stdin), tt.args...)
			if got.code != tt.code || got.stdout != tt.stdout || !strings.Contains(got.stderr, tt.stderr) || tt.stderr == "" && got.stderr != "" {
				t.Errorf("%+v, want %d, %q, %q", got, tt.code, tt.stdout, tt.stderr)
			}
			if all := strings.Join(*asked, "; "); all != tt.asked {
				t.Errorf("asked %s, want %s", all, tt.asked)
			}
		})
	}
}

// An interrupt ends it although the input does not.
func TestSendIsInterrupted(t *testing.T) {
	in, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := sendLine(ctx, t, in, "a", "-"); got.code != exitInterrupted {
		t.Errorf("%+v, want %d", got, exitInterrupted)
	}
}

// Everything at once: a device, the gateway, the API and the command.
func TestSendToADevice(t *testing.T) {
	t.Parallel()
	p := startServe(t)
	sendToADevice(t, p, p, "gateway")
}

// A device at an ear is sent to like one at the server's own port.
func TestSendToADeviceAtAnEar(t *testing.T) {
	t.Parallel()
	judge := "unix:" + filepath.Join(t.TempDir(), "j")
	p := startServe(t, "--link", judge)
	sendToADevice(t, p, startEar(t, "one", judge), "gateway/one")
}

// sendToADevice sends messages by a server to a device that connects to a program, whose source the
// server has.
func sendToADevice(t *testing.T, p, at *program, source string) {
	t.Helper()
	conn, said := at.say("HELLO site-7/pump\n")
	if !strings.HasPrefix(said, "OK ") {
		t.Fatalf("heard %q", said)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(conn)
	for _, step := range []struct {
		args        []string
		hears, says string
		code        int
	}{
		{[]string{"site-7/pump", "open the valve"}, "MSG open the valve\n", "site-7/pump was sent 19 bytes (line)\n", 0},
		{[]string{"site-7/pump", "--hex", "41420a"}, "AB\n", "site-7/pump was sent 3 bytes (line)\n", 0},
		{[]string{"site-7/pump", "a\nb"}, "", "422 Unprocessable Entity: the device's protocol does not allow this text: line: a message is one line of text", exitFailed},
		{[]string{"site-7/pump", strings.Repeat("x", 5000)}, "", "413 Request Entity Too Large: the message is too long: line: a message has at most 1020 bytes, not 5000", exitFailed},
		{[]string{"nobody", "x"}, "", `unknown device "nobody"`, exitFailed},
	} {
		if code, text := p.holter(append([]string{"send"}, step.args...)...); code != step.code || !strings.Contains(text, step.says) {
			t.Errorf("send %.40q = %d %s, want %q", step.args, code, text, step.says)
		}
		if step.hears == "" {
			continue
		}
		if text, err := in.ReadString('\n'); err != nil || text != step.hears {
			t.Errorf("the device heard %q, %v, want %q", text, err, step.hears)
		}
	}
	if _, err := io.WriteString(conn, "BYE\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := in.ReadString('\n'); err != nil || text != "BYE\n" {
		t.Fatalf("the device heard %q, %v", text, err)
	}
	code, text := p.holter("send", "site-7/pump", "x")
	if want := `409 Conflict: the device is not connected here; it was heard last at "` + source + `", `; code != exitFailed || !strings.Contains(text, want) {
		t.Errorf("send = %d %s, want %q", code, text, want)
	}
	p.until(`"result":"not_connected"`)
	if log := p.logged(); strings.Contains(log, "valve") || strings.Count(log, "message to a device") != 6 {
		t.Errorf("the log:\n%s", log)
	}
}
