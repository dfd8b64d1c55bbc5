package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project loads deploy/compose as Docker Compose does, with the schema, and all that is interpolated.
func project(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithWorkingDirectory("../compose"), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompose(t *testing.T) {
	p := project(t)
	for _, name := range []string{"holter", "postgres", "mosquitto", "prometheus", "grafana"} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.HealthCheck == nil || s.Restart != "unless-stopped" {
			t.Errorf("%s has no health check, or is not restarted", name)
		}
		for _, secret := range s.Secrets {
			if _, ok := p.Secrets[secret.Source]; !ok {
				t.Errorf("%s has the secret %s, which there is not", name, secret.Source)
			}
		}
		for key, value := range s.Environment {
			if strings.Contains(strings.ToLower(key), "password") && !strings.HasSuffix(key, "_FILE") && value != nil {
				t.Errorf("%s has a password in the environment: %s", name, key)
			}
		}
	}
	if s, _ := p.GetService("postgres"); len(s.Ports) > 0 {
		t.Errorf("the database is published at %v", s.Ports)
	}
	holter, _ := p.GetService("holter")
	if holter.Image != "holter:latest" || holter.Ulimits["nofile"] == nil || holter.Ulimits["nofile"].Single < 1_000_000 || !holter.ReadOnly {
		t.Errorf("holter is %+v", holter)
	}
	if d := holter.DependsOn["postgres"]; d.Condition != types.ServiceConditionHealthy {
		t.Errorf("holter waits for %+v", d)
	}
}

// TestComposeFiles: what is mounted from this folder is there. What lies beside it is another package's.
func TestComposeFiles(t *testing.T) {
	here, err := filepath.Abs("../compose")
	if err != nil {
		t.Fatal(err)
	}
	mounted := 0
	for _, s := range project(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind || !strings.HasPrefix(v.Source, here+string(filepath.Separator)) {
				continue
			}
			mounted++
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s mounts %s: %v, read-only %v", s.Name, v.Source, err, v.ReadOnly)
			}
		}
	}
	if mounted != 3 {
		t.Errorf("%d files are mounted, want 3", mounted)
	}
}
