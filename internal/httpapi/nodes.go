package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/cluster"
)

// Node is a server of the fleet.
type Node struct {
	Node     string    `json:"node" doc:"Its name, see --node."`
	Process  string    `json:"process" doc:"Unique for each run of a server."`
	Role     string    `json:"role" enum:"judge,standby,ear" doc:"The judge holds the lease of the database; standbys wait to take over; ears hold device connections for the judge."`
	Alive    bool      `json:"alive" doc:"It has renewed its row in the last 20 s, and no other judge came after it."`
	Draining bool      `json:"draining" doc:"An ear that is about to end in order."`
	Term     int64     `json:"term" doc:"The latest term that it knows; it grows with each judge."`
	Version  string    `json:"version"`
	API      string    `json:"api" doc:"URL at which the other servers reach it, see --advertise."`
	Started  time.Time `json:"started" doc:"By the clock of the database."`
	Renewed  time.Time `json:"renewed" doc:"When it renewed its row, by the clock of the database."`
}

// Ears are the ears of a judge. The methods are called concurrently, and must return at once.
type Ears interface {
	// Nodes returns them by name.
	Nodes() []Node
	// Drain asks the ear with a name to end in order. It reports whether there is one.
	Drain(name string) bool
	// Remove removes the ear with a name, as one that is dead. It reports whether there is one.
	Remove(name string) bool
}

type nodeList struct {
	Nodes []Node `json:"nodes" doc:"Servers by name, then ears by name. Servers that were lost stay for an hour."`
}

func (a *API) registerNodes(api huma.API) {
	if a.config.Roster == nil {
		return
	}
	serve(a, api, operation("overview", "list-nodes", "GET /v1/nodes", "Servers of the fleet: the judge, those that stand by, and ears",
		"Several servers may share one database on PostgreSQL or MariaDB. Each of them answers all requests; those that stand by hand them on to the judge."), a.listNodes)
	if a.config.Ears == nil {
		return
	}
	serveEmpty(a, api, operation("administration", "drain-node", "POST /v1/nodes/{name}/drain", "Have an ear end in order, or at once",
		"It is not ready from now on, closes its connections a few at a time, leaves, and its process ends. No event says that its devices are offline unless they do not come back. "+
			"It is done when the ear is on the list no more. With now=true it is removed now: its devices have their reconnect grace. If it still runs it closes "+
			"all its connections, and may come back. 409: this is no ear, but a server.", http.StatusNotFound, http.StatusConflict), a.drainNode)
}

type drainInput struct {
	Name string `path:"name" maxLength:"64" doc:"Its name."`
	Now  bool   `query:"now" doc:"Remove it now."`
}

func (a *API) drainNode(ctx context.Context, in *drainInput) error {
	end, done := a.config.Ears.Drain, "ear asked to drain"
	if in.Now {
		end, done = a.config.Ears.Remove, "ear removed"
	}
	if !end(in.Name) {
		return a.noEar(in.Name)
	}
	return a.changedNamed(ctx, done, in.Name, nil)
}

// noEar returns the problem that no ear has a name.
func (a *API) noEar(name string) error {
	nodes := a.nodes()
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Node != name:
		case !n.Alive:
			return huma.Error409Conflict(fmt.Sprintf("%q is a server that was lost; it is on the list no more after an hour", name))
		case n.Role == string(cluster.Judge):
			return huma.Error409Conflict(fmt.Sprintf("%q is the judge; end its process in order, with SIGTERM: a standby takes over, if there is one", name))
		default:
			return huma.Error409Conflict(fmt.Sprintf("%q is a server that stands by; end its process, with SIGTERM, and it is on the list no more", name))
		}
	}
	names := mapped(nodes, func(n *Node) string { return n.Node })
	return huma.Error404NotFound(fmt.Sprintf("no ear is called %.80q; there are: %s", name, strings.Join(names, ", ")))
}

func (a *API) listNodes(context.Context, *struct{}) (nodeList, error) {
	return nodeList{a.nodes()}, nil
}

// judgeOf returns the name of the server that was the judge in a term; "" if the list does not have it.
func (a *API) judgeOf(term int64) string {
	if a.config.Roster == nil {
		return ""
	}
	members := a.config.Roster.Members()
	i := slices.IndexFunc(members, func(m cluster.Member) bool { return m.Role == cluster.Judge && m.Term == term })
	if i < 0 {
		return ""
	}
	return members[i].Node
}

// nodes returns the servers, and then the ears.
func (a *API) nodes() []Node {
	all := mapped(a.config.Roster.Members(), func(m *cluster.Member) Node {
		return Node{
			Node: m.Node, Process: m.Process, Role: string(m.Role), Alive: m.Alive, Term: m.Term, Version: m.Version, API: m.API,
			Started: utc(m.Started), Renewed: utc(m.Renewed),
		}
	})
	if a.config.Ears != nil {
		all = append(all, a.config.Ears.Nodes()...)
	}
	return all
}
