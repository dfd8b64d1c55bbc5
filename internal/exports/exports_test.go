package exports_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/exports"
	"github.com/holter-iot/holter/liveness"
)

// readers are the functions that read files, by the names of the tools.
func readers() map[string]func([]byte) ([]exports.Check, error) {
	return map[string]func([]byte) ([]exports.Check, error){
		"healthchecks": exports.Healthchecks, "uptime-kuma": exports.UptimeKuma, "opsgenie": exports.Opsgenie,
	}
}

// line says all of a check.
func line(c *exports.Check) string {
	switch {
	case c.Err != nil:
		return fmt.Sprintf("%s %s %s: %v", c.Where, c.Name, c.ID, c.Err)
	case c.Skip != "":
		return fmt.Sprintf("%s %s %s not: %s", c.Where, c.Name, c.ID, c.Skip)
	}
	p := c.Policy
	text := fmt.Sprintf("%s %s = %s timeout %v late %v interval %v", c.Where, c.Name, c.ID, p.Timeout, p.LateAfter, p.Interval)
	if p.Expect != "" {
		text += " expect " + p.Expect
	}
	if c.Paused {
		text += " paused"
	}
	return text + " from " + c.OldURL + " without " + strings.Join(c.Lost, "; ")
}

// The files are written after the documentation of GET /api/v3/checks/ of Healthchecks, the JSON of
// a monitor and the table monitor of Uptime Kuma (server/model/monitor.js, db/knex_init_db.js), and
// the documentation of the Heartbeat API of Opsgenie.
func TestFiles(t *testing.T) {
	for file, want := range map[string][]string{
		"healthchecks.json": {
			`checks[0] Database Backup = database-backup timeout 20m0s late 0s interval 0s expect 15 5 * * * Europe/Berlin from https://hc-ping.com/803f680d-e89b-492b-82ef-2be7b774a92d without tags: production db; description; notifications by 2 integrations; only POST counts as a ping`,
			`checks[1] Sync = sync-31365bce timeout 1h10m0s late 1h0m0s interval 1h0m0s paused from https://hc-ping.com/31365bce-8da9-4729-8ff3-aaa71d56b712 without keywords that make a ping a start, a success or a failure`,
			`checks[2] Sync = sync-124f983e timeout 2m0s late 1m0s interval 1m0s from  without the pause, which ends with its first heartbeat`,
			`checks[3] Month's end month-s-end not: its schedule is in the notation of systemd (OnCalendar), "*-*~1 12:00"; "holter run --expect" takes a crontab expression`,
			`checks[4] Broken broken: grace is of the type string; want a whole number`,
			`checks[5] unnamed = check-f0000000 timeout 24h1m0s late 24h0m0s interval 24h0m0s from  without `,
		},
		"uptime-kuma.json": {
			`monitorList[0] Nightly backup = nightly-backup timeout 1h20m0s late 1h0m0s interval 1h0m0s from /api/push/aB3dE6gH9j without 1 tags; description; notifications; repeated notifications`,
			`monitorList[1] Router = router timeout 1m0s late 0s interval 1m0s paused from /api/push/zZ3dE6gH9j without `,
			`monitorList[2] Site site not: it is of the type http: Holter polls nothing, it watches what reports by itself`,
			`monitorList[3] All all not: it is a group of monitors`,
			`monitorList[4] Must be silent must-be-silent not: it is upside down: it is up while no heartbeat comes, and Holter has no such thing`,
			`monitorList[5] No interval no-interval: interval is 0; want seconds above 0`,
			`monitorList[6] Wrong id wrong-id: id is of the type string; want a whole number`,
		},
		"uptime-kuma-rows.json": {
			`[0] Nightly backup = nightly-backup timeout 2h0m0s late 1h0m0s interval 1h0m0s from /api/push/aB3dE6gH9jKl without `,
			`[1] Must be silent must-be-silent not: it is upside down: it is up while no heartbeat comes, and Holter has no such thing`,
		},
		"opsgenie.json": {
			`heartbeats[0] HeartbeatName = heartbeatname timeout 10m0s late 0s interval 0s from https://api.opsgenie.com/v2/heartbeats/HeartbeatName/ping without team: ops; tags of the alert; priority P3; message of the alert; description`,
			`heartbeats[1] db backup = db-backup timeout 24h0m0s late 0s interval 0s paused from https://api.opsgenie.com/v2/heartbeats/db%20backup/ping without `,
			`heartbeats[2] weekly weekly: intervalUnit is "weeks"; want minutes, hours or days`,
			`heartbeats[3] long long: it fails after 732d; the longest that Holter has is 366d`,
		},
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			tool := strings.TrimSuffix(strings.TrimSuffix(file, ".json"), "-rows")
			checks, err := readers()[tool](text)
			if err != nil || len(checks) != len(want) {
				t.Fatalf("%d checks, %v", len(checks), err)
			}
			for i := range checks {
				if got := line(&checks[i]); got != want[i] {
					t.Errorf("got  %s\nwant %s", got, want[i])
				}
			}
		})
	}
}

func TestMalformedFiles(t *testing.T) {
	tests := []struct{ name, tool, text, want string }{
		{"empty", "healthchecks", " \n", "the file is empty"},
		{"no JSON", "healthchecks", "{\n\"checks\": [\nx]}", "line 3: this is not JSON: invalid character 'x' looking for beginning of value"},
		{"cut off", "opsgenie", "{\"data\":\n{\"heartbeats\":[", "line 2: this is not JSON: unexpected EOF; was the file cut off?"},
		{"more", "healthchecks", "{\"checks\":[]}\n{\"checks\":[]}", "line 2: something follows the end of the JSON; give one file for one export"},
		{"UTF-16", "healthchecks", "\xff\xfe{\x00}\x00", "the file is not UTF-8; was it saved as UTF-16?"},
		{"a number", "opsgenie", "7", "the file is no JSON object; want the answer of GET /v2/heartbeats"},
		{"an error", "healthchecks", `{"error": "wrong api key"}`, `the file is an error, "wrong api key", instead of the answer of GET /api/v3/checks/`},
		{"another error", "opsgenie", `{"message": "Could not authenticate", "took": 0.1}`, `the file is an error, "Could not authenticate", instead of the answer of GET /v2/heartbeats`},
		{"another tool", "healthchecks", `{"monitorList": []}`, `the file has no list "checks"; want the answer of GET /api/v3/checks/`},
		{"no list", "uptime-kuma", `{"monitorList": {}}`, `the file has no list "monitorList"; want a backup of Uptime Kuma 1, or what "sqlite3 -json kuma.db 'SELECT * FROM monitor'" prints`},
		{"null", "opsgenie", `{"data": {"heartbeats": null}}`, `the file has no list "heartbeats"; want the answer of GET /v2/heartbeats`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if checks, err := readers()[tt.tool]([]byte(tt.text)); err == nil || err.Error() != tt.want || checks != nil {
				t.Errorf("%v, %v, want %s", checks, err, tt.want)
			}
		})
	}
}

func TestMalformedChecks(t *testing.T) {
	tests := []struct{ tool, text, want string }{
		{"healthchecks", `7`, "it is of the type number; want an object"},
		{"healthchecks", `null`, "grace is missing, or not above 0; want seconds"},
		{"healthchecks", `{"grace": 60}`, "it has neither a timeout above 0, in seconds, nor a schedule"},
		{"healthchecks", `{"grace": 60.5, "timeout": 60}`, "grace is of the type number 60.5; want a whole number"},
		{"healthchecks", `{"grace": -60, "timeout": 60}`, "grace is missing, or not above 0; want seconds"},
		{"healthchecks", `{"grace": 9000000000000000000, "timeout": 60}`, "it fails after 732d1m; the longest that Holter has is 366d"},
		{"healthchecks", `{"grace": 60, "timeout": 60, "manual_resume": "yes"}`, "manual_resume is of the type string; want true or false"},
		{"uptime-kuma", `{"name": "a"}`, "it has no type; is this a list of monitors?"},
		{"uptime-kuma", `{"type": "push", "interval": 60, "maxretries": -1}`, "maxretries or retryInterval is negative"},
		{"uptime-kuma", `{"type": "push", "interval": 60, "maxretries": 9000000000000000000}`, "it fails after 732d1m; the longest that Holter has is 366d"},
		{"uptime-kuma", `{"type": "push", "interval": 60, "active": "yes"}`, `"yes" is neither true nor false`},
		{"opsgenie", `{"interval": 1, "intervalUnit": "days"}`, "it has no name"},
		{"opsgenie", `{"name": "a", "interval": 0, "intervalUnit": "days"}`, "interval is 0; want a number above 0"},
		{"opsgenie", `{"name": "a", "alertTags": "b"}`, "alertTags is of the type string; want a list"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			list := map[string]string{"healthchecks": `{"checks":[%s]}`, "uptime-kuma": `[%s]`, "opsgenie": `{"heartbeats":[%s]}`}[tt.tool]
			checks, err := readers()[tt.tool](fmt.Appendf(nil, list, tt.text))
			if err != nil || len(checks) != 1 || checks[0].Err == nil || checks[0].Err.Error() != tt.want {
				t.Errorf("%+v, %v, want %s", checks, err, tt.want)
			}
		})
	}
}

// Ids are valid, tell of the names, and are unique.
func TestIDs(t *testing.T) {
	long := strings.Repeat("ä", 200)
	var list []string
	names := []string{"Backup!", "backup", "BACKUP-2", " / ", "", "Straße 7", "..", "a\u0000b", "e\u0301", "\u00e9", long, long + "x", "-"}
	for i, n := range names {
		list = append(list, fmt.Sprintf(`{"name":%q,"grace":60,"timeout":60,"uuid":"%d"}`, n, i))
	}
	text := strings.NewReplacer(`\x00`, `\u0000`).Replace(`{"checks":[` + strings.Join(list, ",") + `]}`)
	checks, err := exports.Healthchecks([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"backup-0", "backup-1", "backup-2", "check-3", "check-4", "straße-7", "check-6", "a-b", "é-8", "é-9", strings.Repeat("ä", 40) + "-10", strings.Repeat("ä", 40) + "-11", "check-12"}
	for i := range checks {
		if checks[i].ID != want[i] {
			t.Errorf("%q became %q, want %q", names[i], checks[i].ID, want[i])
		}
	}
}

// Whatever a file holds, what can be imported is valid, and ids are unique.
func FuzzFiles(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for tool, read := range readers() {
			checks, err := read(text)
			if err != nil && checks != nil {
				t.Errorf("%s: checks and %v", tool, err)
			}
			ids := map[string]bool{}
			for i := range checks {
				c := &checks[i]
				if ids[c.ID] || liveness.ValidateID(c.ID) != nil || c.Name == "" || c.Where == "" {
					t.Errorf("%s: %+v", tool, c)
				}
				ids[c.ID] = true
				if p := c.Policy; c.Usable() && (p.Timeout <= 0 || p.Timeout > liveness.Never || p.LateAfter >= p.Timeout) {
					t.Errorf("%s: policy %+v", tool, p)
				}
			}
		}
	})
}
