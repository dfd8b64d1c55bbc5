package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// compressFrom is the size of the shortest answer that is compressed, in bytes.
const compressFrom = 1024

// newCompressor returns what lets a handler compress JSON for clients that accept gzip. It adds Vary
// to all answers of the handler.
func newCompressor() (func(http.Handler) http.HandlerFunc, error) {
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.EnableZstd(false), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.ContentTypes([]string{"application/json", "application/problem+json", openAPIType}))
	if err != nil {
		return nil, fmt.Errorf("httpapi: compression: %w", err)
	}
	return compress, nil
}

// isCompressed reports whether the answers of a route may be compressed: streams and profiles are
// not, and the fleet map is compressed once for all. Heartbeats have no such routes, because their answers are short.
func isCompressed(path string) bool {
	return !isStream(path) && path != mapPath && !strings.HasPrefix(path, "/debug/")
}
