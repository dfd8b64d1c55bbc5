package access

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// maxUsersFile is the largest users file, in bytes.
	maxUsersFile = 64 << 20
	// maxLineErrors is how many wrong lines an error names.
	maxLineErrors = 10
)

// users is what a users file says. It never changes.
type users struct {
	byName map[string]*account
	list   []*account
}

// account is a line of a users file. It stays the same for as long as its line does.
type account struct {
	text  string // the hash as it stands in the file
	hash  hash
	grant atomic.Pointer[Grant] // the last one that shared has made
}

// parseUsers reads the text of a users file. What has not changed is taken from before, which may
// be nil.
func parseUsers(path, text string, before *users) (*users, error) {
	u := &users{byName: make(map[string]*account)}
	var errs []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, who, err := parseUser(line)
		if err == nil && u.byName[name] != nil {
			err = fmt.Errorf("user %q stands here for the second time", name)
		}
		if err != nil {
			if len(errs) < maxLineErrors {
				errs = append(errs, fmt.Errorf("access: users file %s, line %d: %w", path, number, err))
			}
			continue
		}
		if old := before.find(name); old != nil && old.text == who.text {
			who = old
		}
		u.byName[name] = who
		u.list = append(u.list, who)
	}
	return u, errors.Join(errs...)
}

// parseUser reads a line. Its errors show nothing of the hash.
func parseUser(line string) (name string, who *account, err error) {
	name, text, ok := strings.Cut(line, ":")
	switch {
	case !ok:
		return "", nil, errors.New("there is no colon, want NAME:HASH")
	case name == "" || !utf8.ValidString(name):
		return "", nil, errors.New("the name is empty or not UTF-8, want NAME:HASH")
	}
	h, err := parseHash(text)
	if err != nil {
		return "", nil, fmt.Errorf("the hash of user %q: %w", name, err)
	}
	return name, &account{text: text, hash: h}, nil
}

// find returns a user, or nil. Without a file there are none.
func (u *users) find(name string) *account {
	if u == nil {
		return nil
	}
	return u.byName[name]
}

// standIn returns a hash for a name that has none: that of a user chosen by the name. So the check
// of a password takes as long for unknown users as for the others, whatever kinds of hashes are in
// the file.
func (u *users) standIn(seed maphash.Seed, name string) hash {
	if len(u.list) == 0 {
		return argonHash{memory: argonMemory, time: argonTime, threads: argonThreads, salt: make([]byte, argonSalt), key: make([]byte, argonKey)}
	}
	return u.list[maphash.String(seed, name)%uint64(len(u.list))].hash
}

// shared returns the grant that all clients of a user share.
func (who *account) shared(a *Access, r *role, user string) *Grant {
	if g := who.grant.Load(); g != nil && g.role == r {
		return g
	}
	g := &Grant{access: a, account: who, role: r, names: newNames(user, ""), by: byPassword}
	who.grant.Store(g)
	return g
}
