//go:build !unix

package sqldb

import (
	"context"
	"errors"
	"fmt"
)

var errNoFiles = fmt.Errorf("sqldb: SQLite databases on this system: %w", errors.ErrUnsupported)

// lockFile returns an error: without locks, two processes could write to a database.
func lockFile(context.Context, string) (lock, error) { return nil, errNoFiles }

func fileHolder(string) (Holder, error) { return Holder{}, errNoFiles }

func freeBytes(string) (int64, error) { return 0, errNoFiles }
