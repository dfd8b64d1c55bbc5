//go:build linux

package replays

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// server is a server with a timeout.
type server struct {
	*serve.Server

	timeout time.Duration
	data    string // its directory
	udp     string // HOST:PORT
}

// settings are what a server is told by its file.
const settings = `checkpoint: 1s
http_rate: 100000
policy: {timeout: %v, %sinterval: %v, close_grace: %v}
groups:
  - {name: site, match: "site-*"}
  - {name: tcp, match: "tcp-*"}
  - {name: udp, match: "udp-*"}
  - {name: http, match: "http-*"}
`

// startServer starts a server with a timeout, and a directory of its own.
func startServer(ctx context.Context, program, dir string, r *rules, timeout time.Duration) (*server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	late := ""
	if at := r.late(timeout); at > 0 {
		late = fmt.Sprintf("late_after: %v, ", at)
	}
	config := filepath.Join(dir, "holter.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, settings, timeout, late, r.interval, r.closeGrace), 0o600); err != nil {
		return nil, err
	}
	ports, err := serve.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	s := &server{timeout: timeout, data: filepath.Join(dir, "data"), udp: ports[0]}
	s.Server, err = serve.Holter(ctx, serve.Options{
		Program: program, Log: filepath.Join(dir, "holter.log"),
		Args: []string{
			"serve", "--config", config, "--data", s.data, "--listen", "line://" + serve.AnyPort, "--listen", "udp+line://" + s.udp,
			"--http", serve.AnyPort, "--mqtt", "off", "--log-format", "json",
		},
	})
	return s, err
}

// get reads an answer of the API.
func (s *server) get(ctx context.Context, path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.API+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// events returns what the server has said of devices that are late or offline.
func (s *server) events(ctx context.Context) (all []cloudevent.Event, err error) {
	types := strings.Join([]string{liveness.DeviceLate.String(), liveness.DeviceOffline.String()}, ",")
	for after := uint64(0); ; {
		var page struct {
			Events []cloudevent.Event
			Next   uint64
		}
		query := url.Values{"limit": {"1000"}, "type": {types}, "after": {strconv.FormatUint(after, 10)}}
		if err := s.get(ctx, "/v1/events", query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if page.Next == after {
			return all, nil
		}
		after = page.Next
	}
}
