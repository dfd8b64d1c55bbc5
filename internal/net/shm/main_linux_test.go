package shm_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}
