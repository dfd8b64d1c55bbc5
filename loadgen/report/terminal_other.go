//go:build !unix

package report

import "os"

// terminal knows no terminal of this system, so that it gets lines.
func terminal(*os.File) (dimensions func() (columns, lines int), ok bool) { return nil, false }
