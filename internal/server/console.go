package server

import (
	"context"
	"net/http"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/console"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/sqldb"
)

// Examine examines a server from inside of it. Package doctor has one, which this package cannot
// import.
type Examine func(ctx context.Context, r Running) []httpapi.Finding

// Running is a server at work.
type Running struct {
	Config   config.Config
	Database *sqldb.DB // open
	Ready    error     // why the server cannot do its work; nil if it can
	Stats    httpapi.Stats
	Sources  []httpapi.Source
	Nodes    []httpapi.Node
}

// examination returns what the API offers as an examination; nil for none.
func (s *server) examination() func(context.Context) []httpapi.Finding {
	if s.examine == nil {
		return nil
	}
	return func(ctx context.Context) []httpapi.Finding {
		in := *s.live.Load()
		in.Node = s.config.Node
		r := Running{Config: in, Database: s.database, Ready: s.ready()}
		r.Stats, r.Sources, r.Nodes = s.api.Snapshot()
		return s.examine(ctx, r)
	}
}

// settings returns the settings in force.
func (s *server) settings() httpapi.Settings { return SettingsOf(s.live.Load()) }

// SettingsOf returns the settings of a configuration, as the API shows them.
func SettingsOf(c *config.Config) httpapi.Settings {
	file, all, leftOut := c.InForce()
	out := httpapi.Settings{File: file, Settings: make([]httpapi.Setting, len(all)), LeftOut: leftOut}
	for i, one := range all {
		out.Settings[i] = httpapi.Setting(one)
	}
	return out
}

// console returns the web console; nil if there is to be none.
func (s *server) console() (http.Handler, error) {
	if s.config.Console == "off" {
		return nil, nil
	}
	return console.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.api.Handler().ServeHTTP(w, r) }))
}
