package cli

import (
	"database/sql"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// A directory that is deleted under a server at work is said. Nothing that is written then is answered as if it were stored, and the next
// start does not begin a new fleet.
func TestServeLosesItsDirectory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := startServe(t, "--data", data)
	p.do(http.MethodPost, "/v1/beat/before", "")
	testwait.Until(t, "the directory is deleted", func() bool { return os.RemoveAll(data) == nil }) // files are written into it meanwhile
	p.untilGet("/readyz", 503, "holter.db was deleted or moved away")
	p.until(`"msg":"the database does not work as it should`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.api+"/v1/beat/after", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the heartbeat of a new device is answered with %s", response.Status)
	}
	_ = p.stop(syscall.SIGTERM) // it cannot write a last checkpoint
	out, err := command(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--mqtt", "off", "--http", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the file is not there") {
		t.Fatalf("the next start: %v\n%s", err, out)
	}
}

// A file that is overwritten is said, at once and at the next start.
func TestServeLosesItsFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "holter.db")
	p := startServe(t, "--data", data)
	p.do(http.MethodPost, "/v1/beat/d", "")
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	p.untilGet("/readyz", 503, "holter.db was overwritten or truncated")
	p.until(`"msg":"the database does not work as it should`)
	if _, metrics := p.get("/metrics"); strings.Contains(metrics, "holter_store_harmed_seconds 0\n") {
		t.Error("it is not to be seen in the metrics")
	}
	_ = p.stop(syscall.SIGTERM) // it cannot write a last checkpoint
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--mqtt", "off", "--http", "127.0.0.1:0"}
	out, err := command(t, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the file is empty") || !strings.Contains(string(out), "--accept-loss") {
		t.Fatalf("the next start: %v\n%s", err, out)
	}
	p = startServe(t, "--data", data, "--accept-loss")
	if code, _ := p.get("/v1/devices/d"); code != http.StatusNotFound {
		t.Errorf("GET d = %d", code)
	}
}

// A damaged row of a device is said everywhere, and keeps nobody else from being watched.
func TestServeDamagedDevice(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startServe(t, "--data", data)
	for _, id := range []string{"a", "b"} {
		p.do(http.MethodPost, "/v1/beat/"+id, "")
		p.do(http.MethodPut, "/v1/devices/"+id+"/policy", `{"timeout_ms":300000}`)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(data, "holter.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE device_states SET own = 'nonsense' WHERE num = (SELECT num FROM devices WHERE id = 'a')")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	p = startServe(t, "--data", data)
	p.until("the row of a device cannot be read")
	p.untilGet("/readyz", 200, "1 row of a device could not be read and is set aside in the table set_aside, in "+data)
	p.untilGet("/metrics", 200, "holter_store_set_aside_devices 1\n")
	for id, want := range map[string]string{"a": `"state":"never_seen"`, "b": `"state":"unknown"`} {
		if _, answer := p.get("/v1/devices/" + id); !strings.Contains(answer, want) {
			t.Errorf("device %s: %s, want %s", id, answer, want)
		}
	}
	out, _ := command(t, "doctor", "--data", data).CombinedOutput() // other checks depend on the machine
	if !strings.Contains(string(out), "damaged devices") {
		t.Errorf("doctor:\n%s", out)
	}
}
