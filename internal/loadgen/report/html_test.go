package report_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func html(t *testing.T, f *report.Final) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteHTML(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func pages(t *testing.T) map[string]*report.Final {
	t.Helper()
	unverified := final(t, false)
	unverified.Verdicts = nil
	long := final(t, false)
	for len(long.Samples) < 5000 {
		s := long.Samples[len(long.Samples)-1]
		s.At += one
		long.Samples = append(long.Samples, s)
	}
	return map[string]*report.Final{
		"passed": final(t, false), "failed": final(t, true), "unverified": unverified, "nothing": {Run: run(), Ended: began}, "long": long,
	}
}

var scripts = regexp.MustCompile(`(?s)(<(?:script|style)[^>]*>).*?(</(?:script|style)>)`)

// The page says how many verdicts nobody can judge, if there are any.
func TestPageSaysWhatIsUnjudged(t *testing.T) {
	for bad, want := range map[bool]bool{false: false, true: true} {
		text := html(t, final(t, bad))
		if got := strings.Contains(text, "On one of 1,000 devices whose worker had died"); got != want {
			t.Errorf("with a worker that died %t: it is said %t", bad, got)
		}
	}
}

func TestPageIsWellFormed(t *testing.T) {
	for name, f := range pages(t) {
		t.Run(name, func(t *testing.T) {
			d := xml.NewDecoder(strings.NewReader(scripts.ReplaceAllString(html(t, f), "$1$2")))
			d.Entity = xml.HTMLEntity
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	text := html(t, final(t, true))
	outside := regexp.MustCompile(`(?i)(src|href|action|data|poster|srcset)\s*=\s*["']?\s*(https?:)?//|url\(\s*["']?\s*(https?:)?//|@import|<link[^>]+href="[^d]`)
	if found := outside.FindString(scripts.ReplaceAllString(text, "$1$2")); found != "" {
		t.Errorf("the page refers to %q", found)
	}
	for _, style := range scripts.FindAllString(text, -1) {
		if strings.HasPrefix(style, "<style") && strings.Contains(style, "url(") {
			t.Error("a style refers to something else")
		}
	}
	if !strings.Contains(text, "default-src 'none'") {
		t.Error("the page does not forbid itself to load anything")
	}
	if !strings.Contains(text, "Permission is hereby granted") {
		t.Error("the licence of uPlot is missing")
	}
}

func TestPageEscapes(t *testing.T) {
	text := html(t, final(t, true))
	if strings.Contains(text, "<script>alert") || strings.Contains(text, "<b>dev") || strings.ContainsRune(text, '\x1b') {
		t.Error("an id or an answer became part of the page")
	}
	if !strings.Contains(text, "&lt;b&gt;dev&lt;/b&gt;") {
		t.Error("the id is missing")
	}
}

// TestPageInABrowser loads pages and looks at what their programs made of them.
func TestPageInABrowser(t *testing.T) {
	testenv.Check(t)
	browser := testenv.Program(t, "chromium")
	charts := map[string]string{"passed": "8", "failed": "9", "nothing": "0"}
	all := pages(t)
	for name, want := range charts {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "report.html")
			if err := os.WriteFile(path, []byte(html(t, all[name])), 0o600); err != nil {
				t.Fatal(err)
			}
			dom := load(t, browser, path)
			if !strings.Contains(dom, `data-drawn="`+want+`"`) {
				t.Errorf("the page did not draw %s charts", want)
			}
			if n := strings.Count(dom, "<canvas"); strings.Contains(dom, "alert(1)</script><") || want != "0" && n == 0 {
				t.Errorf("%d canvases", n)
			}
		})
	}
}

// load returns a page as a browser has it in the end. The browser may crash, now and then, for reasons of its own.
func load(t *testing.T, browser, path string) string {
	t.Helper()
	var err error
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var out []byte
		out, err = exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
			"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path).Output()
		cancel()
		if err == nil {
			return string(out)
		}
		t.Logf("%s: %v", browser, err)
	}
	t.Fatal(err)
	return ""
}

// TestKeep leaves reports to look at.
func TestKeep(t *testing.T) {
	if *keep == "" {
		t.Skip("for people: go test -run Keep -args -keep DIR")
	}
	for name, f := range pages(t) {
		if _, err := report.WriteFiles(filepath.Join(*keep, name), f); err != nil {
			t.Error(err)
		}
	}
}
