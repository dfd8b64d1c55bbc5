//go:build linux

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	perSite  = 10_000 // devices of a group
	batch    = 10_000 // heartbeats in a request
	shortOf  = 100    // one device of so many falls silent
	shortTTL = "10s"
)

// idOf returns the id of a device. Ids of more than 16 bytes lie apart from the device in memory.
func idOf(i int) string { return fmt.Sprintf("site-%02d/pump-%06d", i/perSite, i%perSite) }

// server is a server, and a client that asks it over one connection.
type server struct {
	url    string
	client http.Client
}

// fill makes the devices by batches of heartbeats. One in shortOf falls silent soon.
func (s *server) fill(ctx context.Context, devices int) error {
	type beat struct {
		ID  string `json:"id"`
		TTL string `json:"ttl"`
	}
	for from := 0; from < devices; from += batch {
		var beats []beat
		for i := from; i < min(from+batch, devices); i++ {
			ttl := "24h"
			if i%shortOf == 0 {
				ttl = shortTTL
			}
			beats = append(beats, beat{idOf(i), ttl})
		}
		if err := s.send(ctx, beats); err != nil {
			return err
		}
	}
	return nil
}

// send sends a batch until it is taken: the server refuses what it cannot store at once.
func (s *server) send(ctx context.Context, beats any) error {
	text, err := json.Marshal(beats)
	if err != nil {
		return err
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/beats", bytes.NewReader(text))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		status, answer, err := s.do(req)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			return nil
		case status != http.StatusServiceUnavailable:
			return fmt.Errorf("POST /v1/beats: %d %.300s", status, answer)
		}
		if err := run.Wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// settle waits until so many devices are offline, and nothing waits to be stored.
func (s *server) settle(ctx context.Context, offline int) error {
	for late := time.Now().Add(5 * time.Minute); ; {
		var st struct {
			States map[string]int
			Queued int
		}
		if err := s.getJSON(ctx, "/v1/stats", &st); err != nil {
			return err
		}
		if st.States["offline"] >= offline && st.States["pending"] == 0 && st.Queued == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("want %d devices offline, have %+v", offline, st)
		}
		if err := run.Wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (s *server) getJSON(ctx context.Context, path string, to any) error {
	status, text, err := s.get(ctx, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %.300s", path, status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	return err
}

// get asks for a path; headers are names and values.
func (s *server) get(ctx context.Context, path string, headers ...string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.do(req)
}

func (s *server) do(req *http.Request) (status int, body []byte, err error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
