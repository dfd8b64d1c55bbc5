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

// postgres is a PostgreSQL server of our own, which can be stopped and killed.
type postgres struct {
	dir, bin string // of the data, of the programs
	port     int
	log      io.Writer
	as       *syscall.Credential // nil: ourselves
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the process is gone
}

const databaseUser = "holter"

// newPostgres makes a database in a directory and starts its server.
func newPostgres(ctx context.Context, dir string, log io.Writer) (*postgres, error) {
	p := &postgres{dir: filepath.Join(dir, "postgres"), log: log}
	var err error
	if p.bin, err = findPostgres(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := p.unprivileged(); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	p.port = ports[0]
	initdb := exec.CommandContext(ctx, filepath.Join(p.bin, "initdb"), "-D", p.dir, "-U", databaseUser, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
	initdb.SysProcAttr, initdb.Dir = &syscall.SysProcAttr{Credential: p.as}, p.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return p, p.start(ctx)
}

// findPostgres returns where the programs are.
func findPostgres() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("there is no PostgreSQL here: initdb is neither in PATH nor in /usr/lib/postgresql; install it, or use -database sqlite")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged makes the server run as the user postgres, or nobody: it refuses
// to run as root.
func (p *postgres) unprivileged() error {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return fmt.Errorf("PostgreSQL does not run as root: %w", err)
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
	p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chmod(filepath.Dir(p.dir), 0o711); err != nil { // the user must be able to reach the data
		return err
	}
	return os.Chown(p.dir, int(uid), int(gid))
}

// url is where the server finds it.
func (p *postgres) url() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", databaseUser, p.port)
}

// start starts the server and waits until it takes connections. The kernel
// keeps what was written when a process is killed, so fsync is not needed.
func (p *postgres) start(ctx context.Context) error {
	p.cmd = exec.CommandContext(ctx, filepath.Join(p.bin, "postgres"), "-D", p.dir, "-p", strconv.Itoa(p.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	ended := make(chan struct{})
	p.ended = ended
	go func() { _ = p.cmd.Wait(); close(ended) }() // killed or stopped: both are meant
	for limit := time.Now().Add(readyPatience); time.Now().Before(limit); {
		ready := exec.CommandContext(ctx, filepath.Join(p.bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(p.port))
		if ready.Run() == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("PostgreSQL ended while it started; see its log")
		default:
		}
		if err := pause(ctx, 5*pollEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("PostgreSQL takes no connections after %v", readyPatience)
}

// stop stops the server, so that it makes no more processes, and then those that
// it made. Those that are gone need not be.
func (p *postgres) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	p.signal(syscall.SIGSTOP)
}

// signal sends a signal to the server and to the processes that it made.
func (p *postgres) signal(s syscall.Signal) {
	for _, pid := range family(p.cmd.Process.Pid) {
		_ = syscall.Kill(pid, s)
	}
}

// kill ends all of it at once. It may have ended.
func (p *postgres) kill() {
	select {
	case <-p.ended:
	default:
		p.stop()
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}
