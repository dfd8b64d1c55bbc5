package httpapi

import "net/http"

// onceWriter drops all but the first status of an answer. What serves a route reports an error by
// another one, also after the answer has begun and its client is gone: nobody can be told any more.
type onceWriter struct {
	http.ResponseWriter

	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *onceWriter) WriteHeader(status int) {
	if w.begun {
		return
	}
	w.begun = status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *onceWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (w *onceWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// statusOnce has a handler answer with one status.
func statusOnce(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { next(&onceWriter{ResponseWriter: w}, r) }
}
