//go:build !linux

package cli

import "github.com/holter-iot/holter/internal/httpapi"

const example = "holter devices --api http://gateway.example:8080"

// These commands serve or play devices, or open the database of a server.
type (
	serveCommand         = linuxOnly
	monitorCommand       = linuxOnly
	earCommand           = linuxOnly
	configCheckCommand   = linuxOnly
	doctorCommand        = linuxOnly
	backupCommand        = linuxOnly
	restoreCommand       = linuxOnly
	migrateCommand       = linuxOnly
	tokensCommand        = linuxOnly
	loadgenCommand       = linuxOnly
	loadgenWorkerCommand = linuxOnly
)

// settings returns an error: only where a server can run, its files can be resolved.
func (*fileFlags) settings(string) (httpapi.Settings, error) {
	return httpapi.Settings{}, notHere("config show FILE")
}
