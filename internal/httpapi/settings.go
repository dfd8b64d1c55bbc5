package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
)

const configPath = "/v1/config"

// Settings are the settings of a server.
type Settings struct {
	File     string    `json:"file" doc:"The configuration file, as it was named at the start; empty if there is none."`
	Settings []Setting `json:"settings" doc:"In the order of the configuration reference."`
	LeftOut  int       `json:"left_out,omitempty" doc:"Settings of the file beyond the most that are shown."`
}

// Setting is a setting in force.
type Setting struct {
	Key   string `json:"key" doc:"As in the configuration file, with a dot where it nests, and a number in brackets for an entry of a list."`
	Value string `json:"value" doc:"As it was written, or the default in words. *** for a secret."`
	From  string `json:"from" doc:"Where it is from: default, file, or the option or environment variable, such as --http or HOLTER_HTTP."`
	At    string `json:"at,omitempty" doc:"File and line, if it is from the file."`
}

func (a *API) registerSettings(api huma.API) {
	if a.config.Settings == nil {
		return
	}
	serve(a, api, operation("administration", "get-config", "GET "+configPath, "Settings in force, and where each is from",
		"They were read when the server started, or when its configuration was reloaded. Secrets are hidden. Policies of single devices and the steps of playbooks are only counted; "+
			"/v1/devices/{id} and /v1/playbooks show them."), func(context.Context, *struct{}) (Settings, error) {
		return a.config.Settings(), nil
	})
}
