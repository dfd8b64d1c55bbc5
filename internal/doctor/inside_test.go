package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testcert"
)

// running is a server with a database in a directory of its own.
func running(t *testing.T) server.Running {
	t.Helper()
	cfg, err := config.Resolve("", []config.Setting{{Key: "data", Value: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.OpenShared(t.Context(), server.DatabaseConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.Running{Config: cfg, Database: db, Sources: []httpapi.Source{{Name: "gateway"}}}
}

// wantFindings wants findings, as CHECK → part of LEVEL TEXT HELP.
func wantFindings(t *testing.T, all []httpapi.Finding, want map[string]string) {
	t.Helper()
	for check, part := range want {
		i := slices.IndexFunc(all, func(f httpapi.Finding) bool { return f.Check == check })
		if i < 0 {
			t.Errorf("%s was not checked: %+v", check, all)
		} else if text := all[i].Level + " " + all[i].Text + " " + all[i].Help; !strings.Contains(text, part) {
			t.Errorf("%s: %s, want %q", check, text, part)
		}
	}
}

func TestInside(t *testing.T) {
	r := running(t)
	before, err := os.ReadDir(r.Config.Data)
	if err != nil {
		t.Fatal(err)
	}
	wantFindings(t, Inside(t.Context(), r), map[string]string{
		"database": "ok it answers, within", "data directory": r.Config.Data + " can be written", "ready": "ok the server does its work",
		"source gateway": "ok listened", "outbox": "ok ", "open files": "the server, process", "device ports": "ok line://127.0.0.1:7700",
	})
	if after, err := os.ReadDir(r.Config.Data); err != nil || len(after) != len(before) {
		t.Errorf("%v, %v before, %v after", err, before, after)
	}
	for _, f := range Inside(t.Context(), r) {
		if slices.Contains([]string{"API", "lock", "servers", "certificate"}, f.Check) {
			t.Errorf("%+v makes no sense inside", f)
		}
	}
}

func TestInsideProblems(t *testing.T) {
	r := running(t)
	r.Ready = errors.New("the disk is full")
	r.Stats.Lost = 3
	r.Sources = []httpapi.Source{{Name: "gateway", Held: true}}
	r.Nodes = []httpapi.Node{{Node: "a", Role: "judge", Alive: true, Term: 2}, {Node: "b", Role: "standby"}}
	r.Config.TLS = cert.Files{Cert: filepath.Join(t.TempDir(), "none.pem"), Key: "none.key"}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	wantFindings(t, Inside(canceled, r), map[string]string{
		"ready": "fail the disk is full", "outbox": "fail 3 events were lost", "source gateway": "fail its clock stands still", "servers": "warn a judges (term 2); lost: b",
		"certificate": "fail ", "database": "fail ",
	})
}

func TestCertificateOfAPI(t *testing.T) {
	dir := t.TempDir()
	pem, key := testcert.PEM(t, testcert.New(t).Issue(t, testcert.Ask{Name: "holter"}))
	files := cert.Files{Cert: testcert.Write(t, dir, "cert.pem", pem), Key: testcert.Write(t, dir, "key.pem", key)}
	for after, want := range map[time.Duration]string{0: "certificate", 400 * 24 * time.Hour: "warn certificate"} {
		d := &doctor{}
		d.checkCertificateOfAPI(files, time.Now().Add(after))
		if got := d.found(); len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("after %v: %v, want %s", after, got, want)
		}
	}
}
