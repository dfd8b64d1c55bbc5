//go:build linux

// Package api times what the API answers about a large fleet: pages of devices by each sort and several filters, a device, events, the
// fleet map, groups and counts. One client asks holter serve on SQLite over one connection, one request after the other, while nothing
// else happens. Linux only.
package api

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
)

// target is what a page may take at most, in the median.
const target = 50 * time.Millisecond

// Command returns the benchmark.
func Command() run.Command {
	devices := 1_000_000
	return run.Command{
		Name: "api", Help: "times of answers about a fleet of a million devices", Rounds: 20, Names: "devices/SORT FILTER, other/PATH",
		Quick: func() { devices = 3000 },
		Flags: func(f *flag.FlagSet) { f.IntVar(&devices, "n", devices, "devices") },
		Run:   func(ctx context.Context, r *run.Run) error { return measure(ctx, r, devices) },
	}
}

func measure(ctx context.Context, r *run.Run, devices int) error {
	if devices < perSite/10 {
		return fmt.Errorf("-n: want %d or more", perSite/10)
	}
	program, err := r.Holter(ctx)
	if err != nil {
		return err
	}
	config := filepath.Join(r.Dir, "holter.yaml")
	if err := os.WriteFile(config, []byte(settings(devices)), 0o600); err != nil {
		return err
	}
	holter, err := serve.Holter(ctx, serve.Options{
		Program: program, Log: filepath.Join(r.Dir, "holter.log"),
		Args: []string{
			"serve", "--config", config, "--data", filepath.Join(r.Dir, "data"), "--listen", "line://" + serve.AnyPort, "--http", serve.AnyPort, "--mqtt", "off",
			"--log-format", "json",
		},
	})
	if err != nil {
		return err
	}
	defer holter.Stop()
	s := &server{url: holter.API, client: http.Client{Transport: &http.Transport{DisableCompression: true}}}
	defer s.client.CloseIdleConnections()
	begin := time.Now()
	if err := s.fill(ctx, devices); err != nil {
		return err
	}
	r.Progress("%d devices were made in %v", devices, time.Since(begin).Round(time.Second))
	if err := s.settle(ctx, (devices+shortOf-1)/shortOf); err != nil {
		return err
	}
	before := load()
	pages, err := timePages(ctx, r, s, devices)
	if err != nil {
		return err
	}
	others, err := timeOthers(ctx, r, s)
	if err != nil {
		return err
	}
	return r.Publish(ctx, "Answers about a million devices", "api", report(r, devices, before, pages, others))
}

// settings are those of the server: a group for each site.
func settings(devices int) string {
	var w strings.Builder
	w.WriteString("groups:\n")
	for site := 0; site*perSite < devices; site++ {
		fmt.Fprintf(&w, "  - name: site-%02d\n    match: \"site-%02d/*\"\n", site, site)
	}
	return w.String()
}

// load returns the machine's load of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// row is what was measured of one question.
type row struct {
	name  string
	times []time.Duration // sorted
	bytes int
}

func (w *row) quantile(q float64) time.Duration { return w.times[int(q*float64(len(w.times)-1)+0.5)] }

// ask asks the same again and again, with a pause before each time that is not counted.
func (s *server) ask(ctx context.Context, rounds int, name, path string, status int, pause time.Duration, headers ...string) (row, error) {
	w := row{name: name}
	for range rounds {
		if err := run.Wait(ctx, pause); err != nil {
			return w, err
		}
		began := time.Now()
		got, body, err := s.get(ctx, path, headers...)
		took := time.Since(began)
		if err == nil && got != status {
			err = fmt.Errorf("GET %s: %d %.300s", path, got, body)
		}
		if err != nil {
			return w, err
		}
		w.times, w.bytes = append(w.times, took), len(body)
	}
	slices.Sort(w.times)
	return w, nil
}

// filter is a filter of devices.
type filter struct {
	name, query string
	wide        bool // it chooses about all devices: pages behind the first are timed, too
}

func filters() []filter {
	return []filter{
		{"all", "", true},
		{"offline", "state=offline", false},
		{"a group", "group=site-00", false},
		{"a prefix", "prefix=site-00/pump-000", false},
		{"heard in the last 24 h", "seen_after=24h", true},
		{"flapping (none)", "flapping=true", false},
	}
}

// timePages times the first, a middle and the last page of each sort and filter.
func timePages(ctx context.Context, r *run.Run, s *server, devices int) (rows []row, err error) {
	for _, sort := range []string{"", "id", "last_seen", "since"} {
		for _, f := range filters() {
			name := strings.TrimSpace("sort=" + sort)
			if sort == "" {
				name = "no sort"
			}
			if !r.Wanted("devices", name+" "+f.name) {
				continue
			}
			query := "/v1/devices?limit=100&" + f.query
			if sort != "" {
				query += "&sort=" + sort
			}
			pages := []page{{"first", ""}}
			if f.wide {
				if pages, err = s.pages(ctx, query, devices); err != nil {
					return nil, err
				}
			}
			r.Progress("%s, %s", name, f.name)
			for _, p := range pages {
				w, err := s.ask(ctx, r.Rounds, fmt.Sprintf("%s, %s, %s page", name, f.name, p.name), query+"&after="+url.QueryEscape(p.after), http.StatusOK, 0)
				if err != nil {
					return nil, err
				}
				rows = append(rows, w)
			}
		}
	}
	return rows, nil
}

// page is a page of a list, and where it begins.
type page struct{ name, after string }

// pages returns the first, a middle and the last page of a list. With a sort they begin behind devices from the middle and the end of
// those that were made.
func (s *server) pages(ctx context.Context, query string, devices int) (pages []page, err error) {
	if !strings.Contains(query, "&sort=") {
		places, n, err := s.walk(ctx, strings.Replace(query, "limit=100", "limit=1000", 1))
		if err == nil && !strings.Contains(query, "seen_") && n != devices {
			err = fmt.Errorf("%s lists %d devices, want %d", query, n, devices)
		}
		return []page{{"first", places[0]}, {"middle", places[1]}, {"last", places[2]}}, err
	}
	pages = []page{{"first", ""}}
	for _, p := range []struct {
		name   string
		behind int
	}{{"middle", devices / 2}, {"last", devices - 11}} {
		var found struct{ Next string }
		near := idOf(p.behind)
		query := strings.Replace(query, "limit=100", "limit=1", 1) + "&prefix=" + url.QueryEscape(near[:len(near)-1])
		if err := s.getJSON(ctx, query, &found); err != nil {
			return nil, err
		}
		pages = append(pages, page{p.name, found.Next})
	}
	return pages, nil
}

// walk reads a list to its end. It returns where its first, a middle and its last page begin, and how many devices it has.
func (s *server) walk(ctx context.Context, query string) (places [3]string, n int, err error) {
	var starts []string
	for after := ""; ; {
		var page struct {
			Devices []struct{ ID string }
			Next    string
		}
		if err := s.getJSON(ctx, query+"&after="+url.QueryEscape(after), &page); err != nil {
			return places, n, err
		}
		starts = append(starts, after)
		if n += len(page.Devices); page.Next == "" {
			return [3]string{"", starts[len(starts)/2], starts[len(starts)-1]}, n, nil
		}
		after = page.Next
	}
}

// timeOthers times what is not a list of devices.
func timeOthers(ctx context.Context, r *run.Run, s *server) (rows []row, err error) {
	_, _, err = s.get(ctx, "/v1/fleet/map")
	if err != nil {
		return nil, err
	}
	tag, err := s.tag(ctx, "/v1/fleet/map")
	if err != nil {
		return nil, err
	}
	const anew = 2500 * time.Millisecond // after which a picture of the fleet is taken anew
	for _, q := range []struct {
		name, path string
		status     int
		pause      time.Duration
		headers    []string
	}{
		{"/v1/devices/ID", "/v1/devices/" + url.PathEscape(idOf(1234)), http.StatusOK, 0, nil},
		{"/v1/events, of a type", "/v1/events?type=" + url.QueryEscape("device.offline"), http.StatusOK, 0, nil},
		{"/v1/events, of a device", "/v1/devices/" + url.PathEscape(idOf(100)) + "/events", http.StatusOK, 0, nil},
		{"/v1/fleet/map, a new picture", "/v1/fleet/map", http.StatusOK, anew, nil},
		{"/v1/fleet/map, shared", "/v1/fleet/map", http.StatusOK, 0, nil},
		{"/v1/fleet/map, shared, gzip", "/v1/fleet/map", http.StatusOK, 0, []string{"Accept-Encoding", "gzip"}},
		{"/v1/fleet/map, 304", "/v1/fleet/map", http.StatusNotModified, 0, []string{"If-None-Match", tag}},
		{"/v1/fleet/map?by=group", "/v1/fleet/map?by=group", http.StatusOK, 0, nil},
		{"/v1/groups, a new picture", "/v1/groups", http.StatusOK, anew, nil},
		{"/v1/groups, shared", "/v1/groups", http.StatusOK, 0, nil},
		{"/v1/stats", "/v1/stats", http.StatusOK, 0, nil},
	} {
		if !r.Wanted("other", q.path) {
			continue
		}
		rounds := r.Rounds
		if q.pause > 0 {
			rounds = min(rounds, 10)
		}
		pause := q.pause
		if r.Quick {
			pause = 0
		}
		w, err := s.ask(ctx, rounds, q.name, q.path, q.status, pause, q.headers...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, w)
	}
	return rows, nil
}

// tag returns the ETag of a path.
func (s *server) tag(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.url+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("ETag"), resp.Body.Close()
}

func report(r *run.Run, devices int, before string, pages, others []row) string {
	within := !slices.ContainsFunc(pages, func(w row) bool { return w.quantile(0.5) > target })
	return fmt.Sprintf("`holter serve` on SQLite with %s devices in groups of %s, made by heartbeats over HTTP; one in %d is offline. Their ids have 19 bytes. One client on the same machine asks "+
		"over one connection, %d times each, and reads the whole answer. Pages have 100 devices. The load of the machine was %s before, and %s after.\n\n%s\n%s\n"+
		"Target: a page takes %v at most in the median: %s.\n",
		figures.Grouped(devices), figures.Grouped(perSite), shortOf, r.Rounds, before, load(), table("page of /v1/devices", pages), table("other", others), target, figures.Met(within))
}

func table(head string, rows []row) string {
	var w strings.Builder
	fmt.Fprintf(&w, "| %s | p50, ms | p99, ms | max, ms | kB |\n|---|---:|---:|---:|---:|\n", head)
	for _, row := range rows {
		ms := func(q float64) float64 { return float64(row.quantile(q)) / 1e6 }
		fmt.Fprintf(&w, "| %s | %.1f | %.1f | %.1f | %.1f |\n", row.name, ms(0.5), ms(0.99), ms(1), float64(row.bytes)/1e3)
	}
	return w.String()
}
