//go:build linux

package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var sample = regexp.MustCompile(`(?m)^(\w+?)(?:_total)?(?:{.*})? (\S+)$`)

// Metrics reads the metrics whose names begin with a prefix, by the rest of their names without
// _total. Those with different labels are added up.
func (s *Server) Metrics(ctx context.Context, prefix string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.API+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(resp.Status), err)
	}
	all := make(map[string]float64)
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		if name, ok := strings.CutPrefix(m[1], prefix); ok {
			value, _ := strconv.ParseFloat(m[2], 64) // of Prometheus's format
			all[name] += value
		}
	}
	return all, nil
}
