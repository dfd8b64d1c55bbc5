package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	fewBytes  = 1 << 30  // free space below which it warns
	noBytes   = 64 << 20 // free space below which it fails
	fewFiles  = 1000
	lockName  = "lock"
	storeTime = 15 * time.Second // limit for opening a database
)

// checkStore checks the data directory and the database, and returns the process id of the server
// that uses them; 0 if there is none, or it is unknown.
func (d *doctor) checkStore(ctx context.Context, cfg config.Config) (pid int) {
	url := server.DatabaseConfig(cfg).URL
	path, isFile := server.SQLitePath(url)
	if !isFile {
		opens := d.checkDatabase(ctx, cfg)
		d.checkServer(ctx, cfg, opens)
		return 0
	}
	if !d.checkDirectory(filepath.Dir(path)) {
		return 0
	}
	pid = d.checkLock(filepath.Join(filepath.Dir(path), lockName))
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		db, err := sqldb.New(server.DatabaseConfig(cfg))
		if err == nil {
			err = db.Missing()
		}
		if err != nil {
			d.fail("database", err.Error(), "")
			return pid
		}
		d.ok("database", path+" is not there yet; the server makes it")
		return pid
	case err == nil && info.IsDir():
		d.fail("database", path+" is a directory, not a file", "Move it away, or choose another file with --database sqlite:FILE.")
		return pid
	}
	d.checkDatabase(ctx, cfg)
	return pid
}

// checkDirectory checks the data directory, and reports whether to check its contents.
func (d *doctor) checkDirectory(dir string) bool {
	const check = "data directory"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.checkMissing(dir)
	case err != nil:
		d.fail(check, err.Error(), "Let the user that runs holter into it, or choose another directory with --data.")
		return false
	case !info.IsDir():
		d.fail(check, dir+" is a file, not a directory", "Move it away, or choose another directory with --data.")
		return false
	}
	space, err := diskOf(dir)
	if err != nil {
		d.fail(check, err.Error(), "")
		return false
	}
	if space.readOnly {
		d.fail(check, dir+" is on a file system that is mounted read-only", "Mount it for writing (after an error of the disk it may need a check), or choose another directory.")
		return true
	}
	if err := tryWrite(dir); err != nil {
		d.fail(check, fmt.Sprintf("%s cannot be written: %v", dir, err), "Its owner must be the user that runs holter, and there must be space; see also quotas.")
		return true
	}
	d.judgeSpace(check, dir, space)
	return true
}

func (d *doctor) checkMissing(dir string) bool {
	const check = "data directory"
	parent := filepath.Dir(filepath.Clean(dir))
	if err := tryWrite(parent); err != nil {
		d.fail(check, fmt.Sprintf("%s is not there, and cannot be made: %v", dir, err), "Make it, for the user that runs holter, or choose another one with --data.")
		return false
	}
	d.ok(check, dir+" is not there yet; the server makes it")
	return false
}

// tryWrite creates a file in a directory and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return cause(err)
	}
	_, err = f.Write(make([]byte, 4096))
	return cause(errors.Join(err, f.Close(), os.Remove(f.Name())))
}

// cause returns the error of a file without its name.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

func (d *doctor) judgeSpace(check, dir string, space disk) {
	text := fmt.Sprintf("%s can be written, %s free of %s", dir, bytesText(space.free), bytesText(space.total))
	help := "Free some, or keep fewer events: events.keep and events.max_age in the configuration."
	few := fmt.Sprintf("%s can be written, but its file system takes only %s more files", dir, terminal.Grouped(space.freeFiles))
	d.judge(check, text,
		problem{space.free < noBytes, LevelFail, text, help},
		problem{space.free < fewBytes, LevelWarn, text, help},
		problem{space.allFiles > 0 && space.freeFiles < fewFiles, LevelWarn, few, "Remove some."})
}

// checkLock reports which process uses the data directory.
func (d *doctor) checkLock(name string) (server int) {
	const check = "lock"
	if server = d.machine.lockHolder(name); server == 0 {
		d.ok(check, "no server works on it now")
		return 0
	}
	who := strconv.Itoa(server)
	if program := d.machine.processName(server); program != "" {
		who += " (" + program + ")"
	}
	d.ok(check, "process "+who+" works on it")
	return server
}

// checkDatabase reports whether the database opens.
func (d *doctor) checkDatabase(ctx context.Context, cfg config.Config) bool {
	const check = "database"
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	began := time.Now()
	aside, err := d.storeOf(ctx, cfg)
	took := time.Since(began)
	switch {
	case errors.Is(err, sqldb.ErrBadURL), errors.Is(err, sqldb.ErrNewerSchema), errors.Is(err, sqldb.ErrLost), errors.Is(err, sqldb.ErrMoved):
		d.fail(check, err.Error(), "")
	case err != nil:
		why := sqldb.Explain(err)
		text := err.Error()
		if strings.Contains(text, why) {
			why = ""
		}
		d.fail(check, text, why)
	case took > slowAnswer:
		d.warn(check, "it "+cmp.Or(d.does, "opens")+", but only after "+terminal.Short(took+time.Millisecond), "Look at the disk, the server or the network.")
	default:
		d.ok(check, "it "+cmp.Or(d.does, "opens")+", within "+terminal.Short(took+time.Millisecond))
	}
	if aside > 0 {
		d.warn("damaged devices", server.AsideText(aside), strings.ToUpper(server.AsideHelp[:1])+server.AsideHelp[1:]+".")
	}
	if db, bad := sqldb.New(server.DatabaseConfig(cfg)); bad == nil && db.LogAside() != "" {
		d.warn("log aside", "the log of a database file that was replaced or overwritten lies in "+db.LogAside()+", and what it holds is not in the database", server.LogAsideHelp+".")
	}
	return err == nil
}

// probeStore opens the database and reads from it. It returns the number of device rows that are set
// aside.
func probeStore(ctx context.Context, cfg config.Config) (aside int, err error) {
	db, err := sqldb.OpenShared(ctx, server.DatabaseConfig(cfg))
	if err != nil {
		return 0, err
	}
	aside, err = store.CountSetAside(ctx, db)
	return aside, errors.Join(err, db.Close())
}
