package httpapi

import "net/http"

// registerConsole adds the web console, which huma does not describe, because it is no part of the API.
func (a *API) registerConsole(mux routes) {
	if a.config.Console == nil {
		return
	}
	mux.Handle("GET /console/", a.config.Console)
	mux.ServeMux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusFound)
	})
}
