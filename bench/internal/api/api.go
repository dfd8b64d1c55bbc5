// Package api reads Holter's HTTP API, for benchmarks that check what it says.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 20

// maxWait is how long an answer is waited for.
const maxWait = 20 * time.Second

// ErrNotFound is returned by GetJSON for the status 404.
var ErrNotFound = errors.New("api: not found")

// GetJSON reads an answer into a value. Any status but 200 is an error, and so is one that takes more than 20 s.
func GetJSON(ctx context.Context, client *http.Client, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if answer.StatusCode == http.StatusNotFound {
		return ErrNotFound
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.300s", url, answer.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
