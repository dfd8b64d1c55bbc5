package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// startEar runs holter ear on free ports, and waits until it has joined its judge.
func startEar(t *testing.T, name, judge string, args ...string) *program {
	t.Helper()
	args = append([]string{
		"ear", "--node", name, "--judge", judge, "--listen", "127.0.0.1:0", "--mqtt", "off", "--http", "127.0.0.1:0", "--log-format", "json", "--drain-delay", "0s",
	}, args...)
	p, ready := launchProgram(t, args...)
	if !<-ready {
		t.Fatalf("holter ear did not start:\n%s", p.logged())
	}
	p.untilGet("/readyz", 200, "ok")
	return p
}

// When an ear is killed, a device that comes back at another is not offline in between, and of one that
// does not nothing is known for its grace.
func TestEarIsKilled(t *testing.T) {
	t.Parallel()
	judge := "unix:" + filepath.Join(t.TempDir(), "j")
	p := startServe(t, "--link", judge)
	one, two := startEar(t, "one", judge), startEar(t, "two", judge)
	for _, id := range []string{"pump", "lamp"} {
		if _, answer := one.say("HELLO " + id + " ttl=300s\n"); answer != "OK 1 ttl=300" {
			t.Fatalf("answer = %q", answer)
		}
	}
	_ = one.stop(syscall.SIGKILL)
	testwait.Until(t, "the ear is not on the list", func() bool {
		_, body := p.get("/v1/nodes")
		return !strings.Contains(body, `"node":"one"`) && strings.Contains(body, `"node":"two"`)
	})
	if _, answer := two.say("HELLO pump ttl=300s\n"); answer != "OK 2 ttl=300" {
		t.Fatalf("answer = %q", answer)
	}
	for id, want := range map[string]string{"pump": `"state":"online"`, "lamp": `"state":"unknown"`} {
		if _, body := p.get("/v1/devices/" + id); !strings.Contains(body, want) || !strings.Contains(body, fmt.Sprintf(`"connected":%t`, id == "pump")) {
			t.Errorf("%s is %s", id, body)
		}
	}
	if _, body := p.get("/v1/events"); strings.Contains(body, "device.offline") || strings.Contains(body, "session_replaced") {
		t.Errorf("the events are %s", body)
	}
	three := startEar(t, "one", judge) // of the same name
	if _, answer := three.say("HELLO lamp ttl=300s\n"); answer != "OK 2 ttl=300" {
		t.Errorf("answer = %q", answer)
	}
	for _, ear := range []*program{two, three} {
		if err := ear.stop(syscall.SIGTERM); err != nil {
			t.Errorf("the end of an ear: %v\n%s", err, ear.logged())
		}
	}
}

// An operator drains an ear with a command; a second signal ends one that drains at once.
func TestDrainFromTheCommandLine(t *testing.T) {
	t.Parallel()
	judge := "unix:" + filepath.Join(t.TempDir(), "j")
	p := startServe(t, "--link", judge, "--node", "j")
	one, two := startEar(t, "one", judge), startEar(t, "two", judge, "--drain-delay", "1h")
	p.operate(`node one is draining: see "holter nodes list"`, "nodes", "drain", "one")
	one.until("drained: all connections are closed, and the judge knows")
	if err := one.cmd.Wait(); err != nil {
		t.Errorf("the end of an ear that was drained: %v", err)
	}
	if _, answer := two.say("HELLO pump ttl=300s\n"); answer != "OK 1 ttl=300" {
		t.Fatalf("answer = %q", answer)
	}
	if err := two.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	two.until("draining: this process ends in order")
	testwait.Until(t, "the list says that it drains", func() bool {
		out := p.operate("", "nodes", "list")
		return strings.Contains(out, "draining") && !strings.Contains(out, "one")
	})
	for args, want := range map[string]string{"drain three": `no ear is called "three"; there are: j, two`, "drain j": "is the judge; end its process", "drain j --now": "is the judge"} {
		if code, out := p.holter(strings.Fields("nodes " + args)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("nodes %s = %d\n%s", args, code, out)
		}
	}
	_ = two.stop(syscall.SIGTERM)
	if code := two.cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("after a second signal the exit code is %d, want %d\n%s", code, exitInterrupted, two.logged())
	}
	three := startEar(t, "three", judge)
	p.operate("node three removed", "nodes", "drain", "three", "--now")
	three.until("the ear lets go of all connections")
}

func TestEarMistakes(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"ear"}, "there is no judge: add --judge HOST:PORT"},
		{[]string{"ear", "--judge", "judge.example:7710"}, "--judge: judge.example:7710 is reached over the network"},
		{[]string{"ear", "--judge", "unix:x", "--node", "tls"}, "an ear cannot be called tls"},
		{[]string{"ear", "--judge", "127.0.0.1:1", "--link-cert", "none", "--link-key", "none", "--link-ca", "none"}, "link.tls (--link-cert, --link-key, --link-ca): certificates: "},
		{[]string{"serve", "--link", ":7710"}, "--link: :7710 is reached over the network"},
		{[]string{"serve", "--link-cert", "x"}, "--link-cert: both sides of a link show certificates"},
		{[]string{"config", "check", "--ear", tempFile(t, "judges: [unix:x]\nforget_after: 1d\n")}, "forget_after: an ear does not have this"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(t.Context(), tt.args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("run() = %d and wrote\n%s, want %d and %s", code, stderr.String(), exitUsage, tt.want)
			}
		})
	}
}
