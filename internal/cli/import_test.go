package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
)

// exported are the files of package exports.
const exported = "../exports/testdata/"

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A dry run shows all and needs no server.
func TestImportDryRun(t *testing.T) {
	urls := filepath.Join(t.TempDir(), "urls")
	got := typeLine(t.Context(), t, "import", "healthchecks", exported+"healthchecks.json", "--dry-run", "--prefix", "hc/", "--map", urls, "--api", "http://127.0.0.1:1")
	for _, want := range []string{
		"database-backup", "20m after 15 5 * * * Europe/Berlin", "http://127.0.0.1:1/v1/beat/hc%2Fdatabase-backup", "tags: production db; description; notifications by 2 integrations",
		"1h10m, in maintenance", "OnCalendar", "\n4 of 6 to import; a cron job reports with: holter run --device DEVICE -- COMMAND\n",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("it does not say %q:\n%s", want, got.stdout)
		}
	}
	const wrong = "not imported: ../exports/testdata/healthchecks.json: checks[4] (\"Broken\"): grace is of the type string; want a whole number\n"
	if got.code != exitFailed || got.stderr != wrong+"holter: ../exports/testdata/healthchecks.json: 1 entry was not imported\n" {
		t.Errorf("code %d, %s", got.code, got.stderr)
	}
	text, err := os.ReadFile(urls)
	if want := "https://hc-ping.com/803f680d-e89b-492b-82ef-2be7b774a92d\thttp://127.0.0.1:1/v1/beat/hc%2Fdatabase-backup\n" +
		"https://hc-ping.com/31365bce-8da9-4729-8ff3-aaa71d56b712\thttp://127.0.0.1:1/v1/beat/hc%2Fsync-31365bce\n"; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if info, err := os.Stat(urls); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of URLs, which are secrets: %v, %v", info.Mode(), err)
	}
	got = typeLine(t.Context(), t, "import", "uptime-kuma", exported+"uptime-kuma-rows.json", "--dry-run", "--json")
	first, _, _ := strings.Cut(got.stdout, "\n")
	var row map[string]any
	if err := json.Unmarshal([]byte(first), &row); err != nil || got.code != 0 || row["device"] != "nightly-backup" || row["result"] != "to import" || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}

func TestImportMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		`the file has no list "checks"; want the answer of GET /api/v3/checks/; nothing was imported`: {"healthchecks", writeFile(t, "{}")},
		"the file is empty; nothing was imported":                                                     {"opsgenie", writeFile(t, "")},
		"no such file":    {"opsgenie", "/no/such/file"},
		"does not answer": {"opsgenie", exported + "opsgenie.json", "--api", "http://127.0.0.1:1"},
		"it has 139 bytes, at most 128 are allowed": {"opsgenie", exported + "opsgenie.json", "--dry-run", "--prefix", strings.Repeat("x", 130)},
	} {
		if got := typeLine(t.Context(), t, append([]string{"import"}, args...)...); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: %+v, want %s", args, got, want)
		}
	}
}

// An import makes devices that are judged from their first heartbeat on, and a second one changes nothing.
func TestImport(t *testing.T) {
	p := startServe(t)
	file := exported + "uptime-kuma.json"
	p.do(http.MethodPost, "/v1/beat/router", "") // it was heard before
	got := typeLine(t.Context(), t, "import", "uptime-kuma", file, "--api", p.api)
	if got.code != exitFailed || strings.Count(got.stderr, "not imported: ") != 2 || !strings.Contains(got.stdout, "\n2 of 7 imported;") {
		t.Errorf("%+v", got)
	}
	wantDevice := func(id, state string, timeout time.Duration, maintenance bool) {
		t.Helper()
		_, text := p.get("/v1/devices/" + id)
		var d httpapi.Device
		if err := json.Unmarshal([]byte(text), &d); err != nil || d.State != state || d.Maintenance != maintenance || !d.Policy.Own ||
			float64(d.Policy.Timeout) != float64(timeout.Milliseconds()) {
			t.Errorf("%s: %s, %v", id, text, err)
		}
	}
	wantDevice("nightly-backup", "never_seen", 80*time.Minute, false)
	wantDevice("router", "online", time.Minute, true)
	p.do(http.MethodDelete, "/v1/devices/router/maintenance", "")
	got = typeLine(t.Context(), t, "import", "uptime-kuma", file, "--api", p.api, "--json")
	if strings.Count(got.stdout, `"result":"unchanged"`) != 2 || strings.Contains(got.stdout, `"result":"new`) {
		t.Errorf("again: %+v", got)
	}
	wantDevice("router", "online", time.Minute, false) // somebody has ended the maintenance, and it stays so
	p.do(http.MethodPut, "/v1/devices/router/policy", `{"timeout_ms": 5000}`)
	got = typeLine(t.Context(), t, "import", "uptime-kuma", file, "--api", p.api)
	if got.code != exitFailed || !strings.Contains(got.stderr, `("Router"): the device "router" has another policy of its own; "holter devices policy router --clear" takes it away`) ||
		!strings.Contains(got.stdout, "\n1 of 7 imported;") {
		t.Errorf("another policy: %+v", got)
	}
	for _, result := range []string{"new", "unchanged"} {
		got = typeLine(t.Context(), t, "import", "healthchecks", exported+"healthchecks.json", "--api", p.api, "--json")
		if strings.Count(got.stdout, `"result":"`+result+`"`) != 4 || !strings.Contains(got.stdout, `"expect":"15 5 * * * Europe/Berlin"`) {
			t.Errorf("checks of Healthchecks, %s: %+v", result, got)
		}
	}
	wantDevice("database-backup", "never_seen", 20*time.Minute, false)
	p.do(http.MethodPost, "/v1/beat/nightly-backup", "")
	wantDevice("nightly-backup", "online", 80*time.Minute, false)
}
