package prometheus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const dashboardFile = "../grafana/dashboards/holter.json"

type target struct {
	Expr       string
	RefID      string
	Datasource struct{ Type, UID string }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ Type, UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type dashboard struct {
	Panels      []panel
	Annotations struct{ List []struct{ Name, Expr string } }
	Templating  struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 20 {
		t.Fatalf("the dashboard has %d panels", len(d.Panels))
	}
	return d
}

// plain returns a query as Grafana sends it when everything is chosen.
func plain(expr string) string {
	for _, variable := range []string{"$job", "$node", "$instance"} {
		expr = strings.ReplaceAll(expr, variable, ".*")
	}
	return strings.ReplaceAll(expr, "$__rate_interval", "5s")
}

// TestDashboard holds what Grafana's schema does not say; that is held by the tests in deploy/grafana/check.
func TestDashboard(t *testing.T) {
	const source = "${datasource}"
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %q: its id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W < 1 || p.GridPos.H < 1 {
			t.Errorf("panel %q does not lie in the grid: %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("panels %q and %q lie upon each other", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" && p.Type != "table" || p.Datasource.UID != source || len(p.Targets) == 0 {
			t.Errorf("panel %q needs a title, a description, a unit, the data source that was chosen, and queries: %+v", p.Title, p)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.Datasource.UID != source || refs[q.RefID] || !strings.Contains(q.Expr, `{job=~"$job", instance=~"$instance"`) {
				t.Errorf("panel %q: a query must have a refId of its own, the data source and what was chosen: %+v", p.Title, q)
			}
			refs[q.RefID] = true
		}
	}
}

// queries lists all queries of the dashboard, by a name for messages.
func (d *dashboard) queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all[fmt.Sprintf("panel %q, query %s", p.Title, q.RefID)] = plain(q.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		inner, ok := strings.CutPrefix(v.Definition, "label_values(")
		at := strings.LastIndex(inner, ", ")
		if !ok || at < 0 {
			t.Fatalf("variable %s: %s", v.Name, v.Definition)
		}
		all["variable "+v.Name] = fmt.Sprintf(`group by (%s) (%s)`, strings.TrimSuffix(inner[at+2:], ")"), plain(inner[:at]))
	}
	return all
}
