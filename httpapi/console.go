package httpapi

import "net/http"

// registerConsole adds the web console, which huma does not describe, because it is no part of the API.
func (a *API) registerConsole(mux routes) error {
	if a.config.Console == nil {
		return nil
	}
	whole := func(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) } // it is made later
	console, err := a.config.Console(http.HandlerFunc(whole))
	if err != nil {
		return err
	}
	mux.Handle("GET /console/", console)
	mux.ServeMux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusFound)
	})
	return nil
}
