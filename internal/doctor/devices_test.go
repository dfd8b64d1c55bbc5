package doctor

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/test/testcert"
)

func TestDoctorDevices(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t)
	good, expired := ca.Issue(t, testcert.Ask{Name: "gateway"}), ca.Issue(t, testcert.Ask{Name: "gateway", Expired: true})
	files := func(name string, c tls.Certificate) string {
		certPEM, keyPEM := testcert.PEM(t, c)
		return fmt.Sprintf("{cert: %s, key: %s}", testcert.Write(t, dir, name+".pem", certPEM), testcert.Write(t, dir, name+".key", keyPEM))
	}
	devices := tempFile(t, "a\nb\n")
	tests := []struct {
		name, file, rmem string
		want             []string
	}{
		{"nothing said", "{}\n", "1", []string{"ok device ports"}},
		{"devices", "devices_file: " + devices + "\n", "1", []string{"ok device ports", "ok devices file"}},
		{"broken devices", "devices_file: " + tempFile(t, "a b\n") + "\n", "1", []string{"ok device ports", "fail devices file"}},
		{"datagrams", "listen: ['udp+line://127.0.0.1:1']\n", "4194304", []string{"ok device ports", "ok datagrams"}},
		{"few datagrams", "listen: ['udp+line://127.0.0.1:1']\n", "212992", []string{"ok device ports", "warn datagrams"}},
		{"soon", "listen: [{address: '127.0.0.1:1', tls: " + files("good", good) + "}]\n", "1", []string{"ok device ports", "warn device TLS"}},
		{"expired", "listen: [{address: '127.0.0.1:1', tls: " + files("old", expired) + "}]\n", "1", []string{"ok device ports", "fail device TLS"}},
		{"no certificate", "listen: [{address: '127.0.0.1:1', tls: {cert: /none, key: /none}}]\n", "1", []string{"ok device ports", "fail device TLS"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := config.Resolve(tempFile(t, tt.file), nil)
			if err != nil {
				t.Fatal(err)
			}
			d := &doctor{machine: fakeMachine(t, map[string]string{"proc/sys/net/core/rmem_max": tt.rmem})}
			d.checkDevices(cfg)
			d.wants(t, tt.want...)
		})
	}
	d := &doctor{}
	d.checkCertificate(config.Listener{TLS: &cert.Files{Cert: dir + "/good.pem", Key: dir + "/good.key"}}, time.Now().Add(-30*24*time.Hour))
	d.wants(t, "ok device TLS")
	if plain, secret := perConnection([]config.Listener{{}}), perConnection([]config.Listener{{}, {TLS: &cert.Files{}}}); secret <= plain {
		t.Errorf("a connection takes %d, with TLS %d", plain, secret)
	}
}

// tempFile writes a file that ends with the test.
func tempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holter.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
