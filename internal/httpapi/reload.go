package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Reloaded is what a reload of the configuration did.
type Reloaded struct {
	File     string          `json:"file" doc:"The configuration file; empty if there is none."`
	Mistakes []string        `json:"-"` // all of them, each with its place: if there are any, nothing has changed, and the answer is a problem
	Changed  []SettingChange `json:"changed,omitempty" doc:"Settings that have come in force."`
	Restart  []SettingChange `json:"restart,omitempty" doc:"Settings that differ and need a restart. Until then before is in force."`
	Failed   []SettingChange `json:"failed,omitempty" doc:"Settings that could not be put in force, and why. Until then before is in force."`
	Devices  int             `json:"devices,omitempty" doc:"Devices for which another policy holds."`
	Moved    int             `json:"moved,omitempty" doc:"Devices that belong to another group."`
	Took     float64         `json:"took_ms" doc:"How long it took."`
}

// SettingChange is a setting that differs between what was in force and the file.
type SettingChange struct {
	Key    string `json:"key" doc:"As in the configuration reference."`
	Before string `json:"before" doc:"What was in force: the value, or what differs, with its keys. *** for a secret."`
	After  string `json:"after" doc:"What the file says."`
	Error  string `json:"error,omitempty" doc:"Why it could not be put in force."`
}

func (a *API) registerReload(api huma.API) {
	if a.config.Reload == nil {
		return
	}
	serve(a, api, operation("administration", "reload-config", "POST /v1/reload", "Read the configuration file again",
		"With the options and the environment that the server was started with. If there are mistakes, the answer is 422, its detail names them all, and nothing has changed. "+
			"Otherwise what can be changed while the server runs is in force when the answer comes; what needs a restart is named. Reloads come one after the other.",
		http.StatusUnprocessableEntity), a.reload)
}

func (a *API) reload(ctx context.Context, _ *struct{}) (Reloaded, error) {
	out, err := a.config.Reload(ctx, callerOf(ctx))
	if len(out.Mistakes) > 0 {
		return Reloaded{}, huma.Error422UnprocessableEntity("the configuration has mistakes, and nothing has changed:\n" + strings.Join(out.Mistakes, "\n"))
	}
	return out, err
}

// callerOf names who makes a request, for the log.
func callerOf(ctx context.Context) string {
	if name := tokenOf(ctx).Name; name != "" {
		return "the API, with the token " + name
	}
	return "the API"
}
