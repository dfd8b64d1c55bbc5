package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
)

// ntfy publishes to a topic, https://ntfy.sh/TOPIC or that of another server. Whoever knows a topic can
// read it, unless the server keeps it, so the target is a secret.
type ntfy struct {
	settings

	Token    string `json:"token,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

func (n *ntfy) check(target string) error {
	if n.Token != "" && n.Username != "" {
		return errors.New("settings: want token, or username and password, not both")
	}
	if _, topic := topicOf(target); topic == "" && !sink.IsCredential(target) {
		return errors.New("target: want https://ntfy.sh/TOPIC, or a topic of another server")
	}
	return nil
}

// topicOf returns the server and the topic of a target.
func topicOf(target string) (server, topic string) {
	u, err := url.Parse(target)
	if err != nil {
		return "", ""
	}
	path := strings.Trim(u.Path, "/")
	at := strings.LastIndexByte(path, '/') + 1
	u.Path, u.RawPath, u.RawQuery = "/"+path[:at], "", ""
	return u.String(), path[at:]
}

// send implements sender. A message has 4,096 bytes at most; a longer one would become a file. See
// https://docs.ntfy.sh/publish/#publish-as-json.
func (n *ntfy) send(ctx context.Context, a *attempt, m *message) sink.Result {
	server, topic := topicOf(a.target)
	a.secrets = append(a.secrets, topic)
	header, err := n.login(a)
	if err != nil {
		return sink.Result{Err: err}
	}
	title := fit{most: 250, size: bytesOf}.text(m.text.Title)
	return a.post(ctx, server, header, without(object{
		"topic": topic, "title": title, "message": cmp.Or(fit{most: 4096, size: bytesOf}.lines(m.text.Lines), title),
		"priority": map[string]int{wording.Firing: 4, wording.Resolved: 3, wording.Info: 2}[m.Severity],
		"tags":     map[string][]string{wording.Firing: {"rotating_light"}, wording.Resolved: {"white_check_mark"}, wording.Info: {"information_source"}}[m.Severity],
		"click":    m.URL,
	}))
}

// login returns the header that shows who publishes.
func (n *ntfy) login(a *attempt) (http.Header, error) {
	r := http.Request{Header: make(http.Header)}
	switch {
	case n.Token != "":
		token, err := a.secret(n.Token)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case n.Username != "":
		password, err := a.secret(n.Password)
		if err != nil {
			return nil, fmt.Errorf("password: %w", err)
		}
		r.SetBasicAuth(n.Username, password)
	}
	return r.Header, nil
}
