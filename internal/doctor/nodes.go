package doctor

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// checkNodes checks the servers that share the database, if there are several. A server that does not tell, such as one
// of an earlier version, is not complained about here.
func (d *doctor) checkNodes(ctx context.Context, api *apiclient.Client) {
	var list struct{ Nodes []httpapi.Node }
	if err := api.Get(ctx, "/v1/nodes", nil, &list); err == nil && len(list.Nodes) > 1 {
		d.judgeNodes(list.Nodes)
	}
}

// checkBalancer says what a server with ears on other machines needs of a load balancer before them. Its
// settings cannot be seen from here.
func (d *doctor) checkBalancer(cfg config.Config) {
	if cfg.Link.Listen == "" || strings.HasPrefix(cfg.Link.Listen, "unix:") {
		return
	}
	within := terminal.Short(config.DefaultDrainDelay)
	d.judge("load balancer", "", problem{
		true, LevelOK, "not checked: what stands before the ears cannot be seen from here",
		"It must notice within " + within + " that an ear does not answer /readyz: the interval of its check times the failures that count, " +
			"for instance inter 2s fall 3 of HAProxy. Devices are given that long to find another one, beside their interval and 10s.",
	})
}

func (d *doctor) judgeNodes(nodes []httpapi.Node) {
	var standbys, lost, versions, loopback []string
	judge, ears := httpapi.Node{}, 0
	for _, n := range nodes {
		switch {
		case !n.Alive:
			lost = append(lost, n.Node)
			continue
		case n.Role == "judge":
			judge = n
		case n.Role == "ear":
			ears++
		default:
			standbys = append(standbys, n.Node)
		}
		if !slices.Contains(versions, n.Version) {
			versions = append(versions, n.Version)
		}
		if u, err := url.Parse(n.API); err == nil && net.ParseIP(u.Hostname()).IsLoopback() {
			loopback = append(loopback, n.Node)
		}
	}
	text := fmt.Sprintf("%s judges (term %d)", judge.Node, judge.Term)
	if len(standbys) > 0 {
		text += ", " + strings.Join(standbys, ", ") + " ready to take over"
	}
	if ears > 0 {
		text += ", with " + terminal.Plural(ears, "ear", "ears")
	}
	some := len(standbys) > 0
	d.judge("servers", text,
		problem{
			len(lost) > 0, LevelWarn, text + "; lost: " + strings.Join(lost, ", "),
			"Start them again, or see their logs; after an hour they are listed no more.",
		},
		problem{
			len(versions) > 1, LevelWarn, text + "; their versions differ: " + strings.Join(versions, ", "),
			"Bring all to one version: the judge last, so that it hands over once.",
		},
		problem{
			some && len(loopback) > 0 && len(loopback) <= len(standbys), LevelWarn, text + "; reached at a loopback address: " + strings.Join(loopback, ", "),
			"Set --advertise to a URL at which the other machines reach them.",
		})
}
