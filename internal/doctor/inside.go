package doctor

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
)

// Inside runs the checks that make sense inside of a server at work. It opens no database: it asks the
// one of the server.
func Inside(ctx context.Context, r server.Running) []httpapi.Finding {
	d := &doctor{
		machine: machine{"/"}, mostConnections: r.Config.Gateway.MaxConnections, does: "answers",
		storeOf:  func(ctx context.Context, _ config.Config) (int, error) { return store.CountSetAside(ctx, r.Database) },
		surveyOf: func(ctx context.Context, _ config.Config) (sqldb.Survey, error) { return r.Database.Survey(ctx) },
	}
	d.inspect(ctx, r)
	out := make([]httpapi.Finding, len(d.findings))
	for i, f := range d.findings {
		out[i] = httpapi.Finding{
			Check: f.Check, Level: string(f.Level), Text: f.Text, Help: f.Help, Value: f.Value, Needed: f.Needed, Command: f.Command,
		}
	}
	return out
}

func (d *doctor) inspect(ctx context.Context, r server.Running) {
	cfg := r.Config
	path, isFile := server.SQLitePath(server.DatabaseConfig(cfg).URL)
	if isFile {
		d.checkDirectory(filepath.Dir(path))
	}
	answers := d.checkDatabase(ctx, cfg)
	if !isFile {
		d.checkServer(ctx, cfg, answers)
	}
	if r.Ready != nil {
		d.fail("ready", r.Ready.Error(), "")
	} else {
		d.ok("ready", "the server does its work")
	}
	d.checkOutbox(&r.Stats)
	d.checkSources(r.Sources)
	if len(r.Nodes) > 1 {
		d.judgeNodes(r.Nodes)
	}
	d.checkCertificateOfAPI(cfg.TLS, time.Now())
	d.checkDevices(cfg)
	d.checkBalancer(cfg)
	d.checkLimits(os.Getpid(), cfg.Gateway.MaxConnections, perConnection(cfg.Listen))
	d.checkClock()
}

// checkCertificateOfAPI checks the files of the API's certificate, if it has one.
func (d *doctor) checkCertificateOfAPI(files cert.Files, now time.Time) {
	if files.Cert == "" {
		return
	}
	loaded, err := cert.Load(files)
	if err != nil {
		d.fail("certificate", err.Error(), "Until it is fixed, the server goes on with the one that it has read before.")
		return
	}
	d.judgeEnd(loaded.Certificates[0].Leaf.NotAfter, now)
}
