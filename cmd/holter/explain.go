package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
)

const (
	explainTimeout = 10 * time.Second
	maxAnswer      = 4 << 20 // bytes; a device takes a few thousand
)

// explain asks the API of a running holter for a device, and prints why the device is in its state.
func explain(ctx context.Context, apiURL, device string, stdout io.Writer) error {
	d, err := askDevice(ctx, apiURL, device)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, explanation(&d))
	return err
}

// askDevice gets a device from the API.
func askDevice(ctx context.Context, apiURL, device string) (httpapi.Device, error) {
	var d httpapi.Device
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(apiURL, "/")+"/v1/devices/"+escapeID(device), nil)
	if err != nil {
		return d, fmt.Errorf("--api: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // the URL is said already
		}
		return d, fmt.Errorf("the API at %s does not answer: %w\nStart it with \"holter serve\", or say where it is with --api URL", apiURL, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return d, fmt.Errorf("the answer of %s broke off: %w", apiURL, err)
	}
	if answer.StatusCode != http.StatusOK {
		return d, refusal(apiURL, device, answer, body)
	}
	if err := json.Unmarshal(body, &d); err != nil || d.ID == "" || d.State == "" {
		return d, stranger(apiURL, answer)
	}
	return d, nil
}

// escapeID makes an id one segment of a path, also one that would mean a directory.
func escapeID(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// refusal is the error of an answer that is not 200.
func refusal(apiURL, device string, answer *http.Response, body []byte) error {
	var problem struct {
		Status int
		Detail string
	}
	if err := json.Unmarshal(body, &problem); err != nil || problem.Status != answer.StatusCode || problem.Detail == "" {
		return stranger(apiURL, answer)
	}
	if problem.Status == http.StatusNotFound {
		return fmt.Errorf("unknown device %q: %s", device, problem.Detail)
	}
	return fmt.Errorf("%s answers %s: %s", apiURL, answer.Status, problem.Detail)
}

// stranger is the error of an answer that is not Holter's.
func stranger(apiURL string, answer *http.Response) error {
	kind := answer.Header.Get("Content-Type")
	if kind == "" {
		kind = "no content type"
	}
	return fmt.Errorf("%s answers (%s, %s), but not as the API of holter does; is --api right?", apiURL, answer.Status, kind)
}
