package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/holter-iot/holter/internal/strictyaml"
)

func traceFields(d *strictyaml.Reader, c *Trace) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "otlp", Set: strictyaml.Value(d, &c.OTLP, parseCollector)},
		{Key: "headers_file", Set: strictyaml.Value(d, &c.HeadersFile, parseFile)},
		{Key: "sample", Set: strictyaml.Plain(d, &c.Sample, parseSample)},
	}
}

// parseCollector checks the URL of a collector.
func parseCollector(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%s is not the URL of a collector; write http://HOST:4318, or https://HOST/PATH, to which /v1/traces is added", strictyaml.Quote(text))
	case u.User != nil:
		return "", errors.New("the URL must not have a user or password; put an Authorization header into trace.headers_file")
	}
	return text, nil
}

func parseSample(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return 0, fmt.Errorf("%s is not a share; allowed is more than 0, and at most 1, as in 0.1 for a tenth of the events", strictyaml.Quote(text))
	}
	return f, nil
}

// checkTrace rejects what says how to send traces that are sent nowhere.
func (r *resolver) checkTrace() {
	t := &r.cfg.Trace
	if t.OTLP == "" && *t != (Trace{}) && len(r.errs) == 0 {
		r.fail("traces are sent nowhere; add trace.otlp: http://COLLECTOR:4318, or remove this", "trace.headers_file", "trace.sample")
	}
}
