package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
)

// schedulesServer is an API with schedules, which refuses the command "refused".
func schedulesServer(t *testing.T) (url string, has map[string]httpapi.ScheduleSettings) {
	t.Helper()
	has = make(map[string]httpapi.ScheduleSettings)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/schedules/{name}", func(w http.ResponseWriter, r *http.Request) {
		s, ok := has[r.PathValue("name")]
		if !ok {
			problem(http.StatusNotFound, "no such schedule")(w, r)
			return
		}
		text, _ := json.Marshal(httpapi.Schedule{ScheduleSettings: s, Name: r.PathValue("name")})
		answer(http.StatusOK, "application/json", string(text))(w, r)
	})
	mux.HandleFunc("PUT /v1/schedules/{name}", func(w http.ResponseWriter, r *http.Request) {
		var s httpapi.ScheduleSettings
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil || r.Header.Get("If-None-Match") != "*" {
			t.Errorf("PUT: %v, If-None-Match %q", err, r.Header.Get("If-None-Match"))
		}
		if strings.Contains(string(s.Settings), "refused") {
			problem(http.StatusUnprocessableEntity, "settings: this server is not configured to run commands")(w, r)
			return
		}
		has[r.PathValue("name")] = s
		answer(http.StatusOK, "application/json", `{"name":"x"}`)(w, r)
	})
	return serveTest(t, mux), has
}

func crontabFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSchedulesImport(t *testing.T) {
	const text = "MAILTO=a@b.example\n0 3 * * * backup.sh --full\nPATH=/bin\nHOME=/srv\nRANDOM_DELAY=2\nCRON_TZ=Asia/Tokyo\n@daily poll > /tmp/log\n"
	url, has := schedulesServer(t)
	file := crontabFile(t, text)
	dry := typeLine(t.Context(), t, "schedules", "import", file, "--dry-run", "--zone", "Europe/Berlin", "--api", "http://127.0.0.1:1")
	if dry.code != 0 || len(has) != 0 || !strings.Contains(dry.stdout, "backup.sh --full") || !strings.Contains(dry.stderr, "MAILTO sends no mail") {
		t.Errorf("dry run: %+v, %v", dry, has)
	}
	dry = typeLine(t.Context(), t, "schedules", "import", file, "--dry-run", "--zone", "Europe/Berlin", "--json", "--api", "http://127.0.0.1:1")
	if first, _, _ := strings.Cut(dry.stdout, "\n"); dry.code != 0 || !strings.Contains(first, `"line":2,"name":"backup.sh","result":"new","next":"20`) ||
		!strings.HasPrefix(first, `{"kind":"command","when":"0 3 * * *","zone":"Europe/Berlin"`) {
		t.Errorf("dry run as JSON: %+v", dry)
	}
	got := typeLine(t.Context(), t, "schedules", "import", file, "--zone", "Europe/Berlin", "--api", url)
	if got.code != 0 || strings.Count(got.stdout, " new ") != 2 {
		t.Errorf("import: %+v", got)
	}
	backup, poll := has["backup.sh"], has["poll"]
	if string(backup.Settings) != `{"command":"backup.sh --full","shell":true,"timeout_ms":86400000}` || backup.Zone != "Europe/Berlin" || backup.When != "0 3 * * *" ||
		backup.Kind != "command" || backup.Overlap != "allow" || backup.Misfire != "skip" || !backup.Once || backup.Jitter != 0 {
		t.Errorf("backup.sh: %+v, %s", backup, backup.Settings)
	}
	if string(poll.Settings) != `{"args":["PATH=/bin","HOME=/srv","/bin/sh","-c","poll \u003e /tmp/log"],"command":"env","dir":"/srv","timeout_ms":86400000}` ||
		poll.Zone != "Asia/Tokyo" || poll.When != "@daily" || poll.Jitter != 120_000 {
		t.Errorf("poll: %+v, %s", poll, poll.Settings)
	}
	if got := typeLine(t.Context(), t, "schedules", "import", file, "--zone", "Europe/Berlin", "--api", url); got.code != 0 || strings.Count(got.stdout, " unchanged ") != 2 {
		t.Errorf("import again: %+v", got)
	}
	got = typeLine(t.Context(), t, "schedules", "import", file, "--zone", "UTC", "--api", url)
	if want := "holter: " + file + `:2: there is another schedule "backup.sh"; delete it, or choose other names with --prefix; nothing was imported` + "\n"; got.code == 0 || got.stderr[strings.Index(got.stderr, "holter:"):] != want {
		t.Errorf("import with another zone: %+v, want %s", got, want)
	}
	if got := typeLine(t.Context(), t, "schedules", "import", file, "--zone", "UTC", "--prefix", "b-", "--api", url); got.code != 0 || len(has) != 4 || has["b-poll"].When != "@daily" {
		t.Errorf("import with a prefix: %+v, %v", got, has)
	}
}

func TestSchedulesImportErrors(t *testing.T) {
	url, has := schedulesServer(t)
	file := crontabFile(t, "0 25 * * * x\n@reboot y\n0 1 * * * z\n")
	got := typeLine(t.Context(), t, "schedules", "import", file, "--zone", "UTC", "--api", url)
	want := "holter: nothing was imported; --skip-bad leaves these lines out:\n" + file + ":1:3: field 2 (hour) is 25: want 0 to 23\n" +
		file + ":2:1: @reboot has no time: a schedule runs nothing when a machine starts; that is for the service manager of its system\n"
	if got.code != exitUsage || got.stderr != want || len(has) != 0 {
		t.Errorf("mistakes: %+v, want %s", got, want)
	}
	got = typeLine(t.Context(), t, "schedules", "import", file, "--zone", "UTC", "--skip-bad", "--api", url)
	if got.code != 0 || len(has) != 1 || has["z"].When != "0 1 * * *" || strings.Count(got.stderr, "left out: ") != 2 {
		t.Errorf("--skip-bad: %+v, %v", got, has)
	}
	got = typeLine(t.Context(), t, "schedules", "import", crontabFile(t, "0 1 * * * a\n0 1 * * * refused\n0 1 * * * b\n"), "--zone", "UTC", "--api", url)
	if got.code != exitFailed || has["a"].When == "" || has["b"].When != "" || !strings.Contains(got.stdout, " a ") ||
		!strings.Contains(got.stderr, "run commands (start it with HOLTER_DELIVERY_ALLOW_COMMANDS=true); the lines above it are imported") {
		t.Errorf("a server that refuses: %+v, %v", got, has)
	}
	for name, args := range map[string][]string{
		"/etc/crontab has a column of users": {"/etc/crontab"},
		"no such file":                       {filepath.Join(t.TempDir(), "none")},
		"":                                   {crontabFile(t, "# nothing\n"), "--user", "root"},
	} {
		got := typeLine(t.Context(), t, append([]string{"schedules", "import", "--zone", "UTC", "--api", url}, args...)...)
		if (got.code == 0) != (name == "") || !strings.Contains(got.stderr, name) || name == "" && got.stdout != "no lines to import\n" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestLocalZone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "zoneinfo", "Europe")
	file := filepath.Join(dir, "Berlin")
	link := filepath.Join(t.TempDir(), "localtime")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, tz, link, want string
		set                  bool
	}{
		{name: "a link", link: link, want: "Europe/Berlin"},
		{name: "no link", link: link + "none", want: "UTC"},
		{name: "a copy", link: os.Args[0]},
		{name: "TZ", tz: ":Asia/Tokyo", set: true, link: link, want: "Asia/Tokyo"},
		{name: "an empty TZ", set: true, link: link, want: "UTC"},
		{name: "rules", tz: "EST5EDT4,M3.2.0,M11.1.0", set: true, link: link},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := localZone(func(string) (string, bool) { return tt.tz, tt.set }, tt.link)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("localZone = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
