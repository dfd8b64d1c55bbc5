package httpapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/cluster"
)

// Node is a server of the fleet.
type Node struct {
	Node    string    `json:"node" doc:"Its name, see --node."`
	Process string    `json:"process" doc:"Unique for each run of a server."`
	Role    string    `json:"role" enum:"judge,standby,ear" doc:"The judge holds the lease of the database; standbys wait to take over; ears hold device connections for the judge."`
	Alive   bool      `json:"alive" doc:"It has renewed its row in the last 20 s, and no other judge came after it."`
	Term    int64     `json:"term" doc:"The latest term that it knows; it grows with each judge."`
	Version string    `json:"version"`
	API     string    `json:"api" doc:"URL at which the other servers reach it, see --advertise."`
	Started time.Time `json:"started" doc:"By the clock of the database."`
	Renewed time.Time `json:"renewed" doc:"When it renewed its row, by the clock of the database."`
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
}

func (a *API) listNodes(context.Context, *struct{}) (nodeList, error) {
	var ears []Node
	if a.config.Ears != nil {
		ears = a.config.Ears()
	}
	return nodeList{append(mapped(a.config.Roster.Members(), func(m *cluster.Member) Node {
		return Node{
			Node: m.Node, Process: m.Process, Role: string(m.Role), Alive: m.Alive, Term: m.Term, Version: m.Version, API: m.API,
			Started: utc(m.Started), Renewed: utc(m.Renewed),
		}
	}), ears...)}, nil
}
