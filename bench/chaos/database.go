//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// database is a database server that was started here, and can be stopped and killed.
type database struct {
	kind  databaseKind
	dir   string // of the data
	port  int
	log   io.Writer
	as    *syscall.Credential // nil: our own user
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone
}

// databaseKind is what differs between PostgreSQL and MariaDB.
type databaseKind interface {
	// install returns the command that fills the directory, serve that of the server; ready reports
	// whether it accepts connections.
	install(ctx context.Context, dir string) (*exec.Cmd, error)
	serve(ctx context.Context, dir string, port int) (*exec.Cmd, error)
	ready(ctx context.Context, port int) bool
	url(port int) string
}

const databaseUser = "holter"

// newDatabase makes a database in a directory and starts its server.
func newDatabase(ctx context.Context, name, dir string, log io.Writer) (*database, error) {
	d := &database{kind: databaseKind(postgres{}), dir: filepath.Join(dir, name), log: log}
	if name == MariaDB {
		d.kind = mariadb{}
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := d.unprivileged(); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	d.port = ports[0]
	install, err := d.kind.install(ctx, d.dir)
	if err != nil {
		return nil, err
	}
	install.SysProcAttr, install.Dir = &syscall.SysProcAttr{Credential: d.as}, d.dir
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(install.Path), err, out)
	}
	return d, d.start(ctx)
}

// installed returns a command of a program that is in PATH, or in a directory of a distribution
// that is not.
func installed(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	for _, place := range []string{"/usr/lib/postgresql/*/bin", "/usr/sbin", "/usr/libexec"} {
		if err == nil {
			break
		}
		found, _ := filepath.Glob(filepath.Join(place, name)) // the patterns are right
		if slices.Sort(found); len(found) > 0 {
			path, err = found[len(found)-1], nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("there is no %s here; install it, or use -database sqlite: %w", name, err)
	}
	return exec.CommandContext(ctx, path, args...), nil
}

// unprivileged makes the server run as the user postgres, or nobody: servers refuse to run as root.
func (d *database) unprivileged() error {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return fmt.Errorf("database servers do not run as root: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return fmt.Errorf("user %s: %w", u.Username, err)
	}
	d.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chmod(filepath.Dir(d.dir), 0o711); err != nil { // the user must be able to reach the data
		return err
	}
	return os.Chown(d.dir, int(uid), int(gid))
}

// url is the database's for holter serve.
func (d *database) url() string { return d.kind.url(d.port) }

// start starts the server and waits until it accepts connections. It does not sync its files, since
// the kernel keeps what a killed process has written.
func (d *database) start(ctx context.Context) error {
	cmd, err := d.kind.serve(ctx, d.dir, d.port)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.as, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, d.log, d.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the database: %w", err)
	}
	ended := make(chan struct{})
	d.cmd, d.ended = cmd, ended
	go func() { _ = cmd.Wait(); close(ended) }() // killed or stopped on purpose
	for limit := time.Now().Add(readyPatience); time.Now().Before(limit); {
		if d.kind.ready(ctx, d.port) {
			return nil
		}
		select {
		case <-ended:
			return errors.New("the database ended while it started; see its log")
		default:
		}
		if err := pause(ctx, 5*pollEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("the database takes no connections after %v", readyPatience)
}

// stop stops the server, so that it starts no more processes, and then its child processes.
func (d *database) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGSTOP)
	d.signal(syscall.SIGSTOP)
}

// signal sends a signal to the server and to the processes that it made.
func (d *database) signal(s syscall.Signal) {
	for _, pid := range family(d.cmd.Process.Pid) {
		_ = syscall.Kill(pid, s)
	}
}

// kill ends all its processes at once, if they still run.
func (d *database) kill() {
	select {
	case <-d.ended:
	default:
		d.stop()
		d.signal(syscall.SIGKILL)
		<-d.ended
	}
}
