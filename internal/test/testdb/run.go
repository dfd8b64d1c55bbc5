package testdb

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// variable says at which ports the servers are that several test binaries share: "postgres=20123 mariadb=20456".
const variable = "HOLTER_TEST_SERVERS"

// NewShared starts a server of a kind, "postgres" or "mariadb", for all tests of a run. It does not wait for the disk.
func NewShared(name string) (*Server, error) {
	for _, k := range []kind{postgres{}, mariadb{}} {
		if k.name() == name {
			return newServer(k)
		}
	}
	return nil, fmt.Errorf("testdb: there is no server %q", name)
}

// Announce returns the variable of the environment that lets the tests find servers; nil is none.
func Announce(servers ...*Server) string {
	var found []string
	for _, s := range servers {
		if s != nil {
			found = append(found, fmt.Sprintf("%s=%d", s.kind.name(), s.port))
		}
	}
	return variable + "=" + strings.Join(found, " ")
}

// announced returns the server of a kind that was announced to this process; nil without one.
func announced(k kind) (*Server, error) {
	for field := range strings.FieldsSeq(os.Getenv(variable)) {
		name, port, _ := strings.Cut(field, "=")
		if name != k.name() {
			continue
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, fmt.Errorf("testdb: %s: %w", variable, err)
		}
		return &Server{kind: k, port: n}, nil
	}
	return nil, nil //nolint:nilnil // there may be none
}
