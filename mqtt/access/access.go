package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often Run looks at the files.
const lookEvery = time.Second

var (
	// ErrDenied is returned by [Access.Decide] and [Access.Login] for a client that has not proved
	// who it is and may not be anonymous, and by [Access.Renew] if its proof is no longer one.
	ErrDenied = errors.New("access: wrong user name or password")
	// ErrBusy is returned by [Access.Login] when too many passwords are being checked; the client
	// is to try again later.
	ErrBusy = errors.New("access: too many logins at a time")
	// ErrLocked is returned by [Access.Decide] and [Access.Login] for a user name for which too many
	// wrong passwords came from the client's address; the client is to try again in two minutes.
	ErrLocked = errors.New("access: too many wrong passwords for this user from this address; try again in two minutes")
	// ErrClientID is returned by [Access.Decide], [Access.Login] and [Access.Renew] for a client
	// whose rules do not let it use its client id.
	ErrClientID = errors.New("access: the client id is not one that this user may use")
)

// Anonymous says which clients may connect without proving who they are.
type Anonymous uint8

// Who may be anonymous.
const (
	Loopback Anonymous = iota // clients on this machine that come through no proxy, for certain
	Never                     // no client
	Anyone                    // every client
)

// Config says who may connect, and what for.
type Config struct {
	// Users is the path of the users file; "" if there is none. Then a user name proves nothing,
	// and is not looked at unless it is the client id.
	Users string
	// Rules is the path of the rules file; "" if there is none. Then everything is allowed to all
	// who may connect.
	Rules string
	// Anonymous says who may connect without a proof. Default: clients on this machine.
	Anonymous Anonymous
	// Token reports whether token is the secret of the device with an id, which is the client id.
	// It is called by Decide, concurrently, returns at once, keeps no token, and is never true for
	// a token that everybody may know. nil: no token is a password.
	Token func(id string, token []byte) bool
	// Logger is told of files that were read again, and of those that cannot be. Default:
	// [slog.Default].
	Logger *slog.Logger
}

// Login is what a client shows when it connects. A [Grant] keeps its texts, but not the password.
type Login struct {
	ClientID    string     // as it is used: if the client has said none, the one that was made for it
	User        string     // "" if it has said none
	Password    []byte     // nil if it has said none
	Certificate string     // the name that a verified certificate has proved; "" if there is none
	Remote      netip.Addr // where the client is
	Relayed     bool       // Remote may be that of a proxy, and the client anywhere
}

// Access decides who may connect, and what for. Its methods may be called concurrently.
type Access struct {
	config    Config
	looking   sync.Mutex // guards users and rules, and lets one look at a time
	users     file
	rules     file
	passwords *passwords
	state     atomic.Pointer[state]
}

// state is what the files say. It never changes; a new one takes its place.
type state struct {
	users      *users // nil: there is no file
	rules      *rules // nil: there is no file
	anonymous  *Grant // shared by all who are anonymous, unless theirs depends on the client id
	generation uint64
}

// New reads the files. Errors: one cannot be read; all that is wrong in it, with the line; an
// unknown value of Anonymous.
func New(c Config) (*Access, error) {
	if c.Anonymous > Anyone {
		return nil, fmt.Errorf("access: Anonymous is %d, want Loopback, Never or Anyone", c.Anonymous)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	a := &Access{
		config: c, passwords: newPasswords(c.Logger),
		users: file{kind: "users", path: c.Users, most: maxUsersFile},
		rules: file{kind: "rules", path: c.Rules, most: maxRulesFile},
	}
	a.state.Store(&state{})
	var errs [2]error
	var next state
	if c.Users != "" {
		next.users, errs[0] = load(&a.users, a.parseUsers)
	}
	if c.Rules != "" {
		next.rules, errs[1] = load(&a.rules, a.parseRules)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	a.set(next)
	return a, nil
}

// parseUsers reads a users file. Users that have not changed stay the same.
func (a *Access) parseUsers(path, text string) (*users, error) {
	return parseUsers(path, text, a.state.Load().users)
}

// parseRules reads a rules file. Rules that have not changed stay the same.
func (a *Access) parseRules(path, text string) (*rules, error) {
	return parseRules(path, text, a.state.Load().rules)
}

func (a *Access) set(next state) {
	next.generation++
	next.anonymous = &Grant{access: a, role: next.rules.role("", false), names: newNames("", "")}
	a.state.Store(&next)
}

// Run reads the files again when they have changed, until ctx is done. It looks every second. If a
// file cannot be read, or is wrong, that is logged, and what held before stays. It is called once,
// and returns nil.
func (a *Access) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = a.Look() // it was logged
		case <-ctx.Done():
			return nil
		}
	}
}

// Look reads the files now that have changed, as Run does. It returns what is wrong with them, although what
// they said before stays in effect.
func (a *Access) Look() error {
	a.looking.Lock()
	defer a.looking.Unlock()
	a.lookLocked()
	var errs []error
	for _, f := range []*file{&a.users, &a.rules} {
		if f.wrong != "" {
			errs = append(errs, errors.New(f.wrong))
		}
	}
	return errors.Join(errs...)
}

func (a *Access) lookLocked() {
	next := *a.state.Load()
	users, usersChanged := reload(&a.users, a.config.Logger, a.parseUsers)
	if usersChanged {
		next.users = users
	}
	rules, rulesChanged := reload(&a.rules, a.config.Logger, a.parseRules)
	if rulesChanged {
		next.rules = rules
	}
	if usersChanged || rulesChanged {
		a.set(next)
	}
}

// Generation returns a number that changes when any [Grant.Valid] may have. It costs one atomic
// load. A client whose Grant was made while the number changed may be missed by who only looks at
// it then: ask Valid once more when the client is listed.
func (a *Access) Generation() uint64 { return a.state.Load().generation }

// Decide returns what a client is allowed. ok is false if a password has to be computed first,
// which [Access.Login] does. It returns at once and uses no files, so an event loop may call it.
// Errors: [ErrDenied], [ErrLocked], [ErrClientID].
//
// A certificate proves the user with its name, to a client that says this user name or none. Then,
// of a client without a user name, or whose user name is its client id, the password may be the
// token of the device with this id; it proves the user with the name of the id, unless that stands
// in the users file. Then the users file decides about a user name. A client without one, and one
// whose user name nothing can prove, is anonymous; one that shows a wrong token is not.
func (a *Access) Decide(l Login) (g *Grant, ok bool, err error) {
	s := a.state.Load()
	named := l.User != "" && s.users != nil
	if l.Certificate != "" && (!named || l.User == l.Certificate) {
		return a.admit(s, byCertificate, l.Certificate, nil, l.ClientID)
	}
	if a.showsToken(l) {
		if s.users.find(l.ClientID) == nil && a.config.Token(l.ClientID, l.Password) {
			return a.admit(s, byToken, l.ClientID, nil, l.ClientID)
		}
		if !named {
			return nil, true, ErrDenied
		}
	}
	switch {
	case !named && a.mayBeAnonymous(l):
		return a.admit(s, byNothing, "", nil, l.ClientID)
	case !named, len(l.Password) == 0, len(l.Password) > maxPassword:
		return nil, true, ErrDenied
	}
	if !a.passwords.mayTry(l) {
		return nil, true, ErrLocked
	}
	who := s.users.find(l.User)
	switch right, known := a.passwords.known(a.passwords.key(who, l.User, l.Password)); {
	case !known:
		return nil, false, nil
	case !right || who == nil:
		return nil, true, ErrDenied
	}
	return a.admit(s, byPassword, l.User, who, l.ClientID)
}

// showsToken reports whether a client's password may be the token of a device.
func (a *Access) showsToken(l Login) bool {
	return a.config.Token != nil && len(l.Password) > 0 && l.ClientID != "" && (l.User == "" || l.User == l.ClientID)
}

func (a *Access) mayBeAnonymous(l Login) bool {
	return a.config.Anonymous == Anyone || a.config.Anonymous == Loopback && l.Remote.IsLoopback() && !l.Relayed
}

// admit returns the grant of a client that has proved who it is, or needs no proof.
func (a *Access) admit(s *state, by proof, user string, who *account, clientID string) (g *Grant, ok bool, err error) {
	r := s.rules.role(user, by != byNothing)
	if !r.mayUse(user, clientID) {
		return nil, true, ErrClientID
	}
	if r.perClient() {
		return &Grant{access: a, account: who, role: r, names: newNames(user, clientID), by: by}, true, nil
	}
	switch by {
	case byNothing:
		return s.anonymous, true, nil
	case byPassword:
		return who.shared(a, r, user), true, nil
	default:
		return &Grant{access: a, role: r, names: newNames(user, ""), by: by}, true, nil
	}
}

// Login is [Access.Decide] for a client whose password has to be computed. It blocks while that
// takes, some 30 ms of a processor for a hash of [HashPassword], and while it waits for its turn.
// Errors: those of Decide, [ErrBusy], and that of ctx, with which errors.Is finds it.
func (a *Access) Login(ctx context.Context, l Login) (*Grant, error) {
	for {
		g, ok, err := a.Decide(l)
		if ok {
			return g, err
		}
		if err := a.passwords.check(ctx, a.state.Load().users, l); err != nil {
			return nil, err
		}
	}
}

// Recall returns the grant of a client that connected before the program was started, for [Access.Renew]. It
// is that of a user whom a password has proved if he stands in the users file, else a token or a
// certificate; "" is an anonymous client.
func (a *Access) Recall(user string) *Grant {
	g := &Grant{access: a, names: newNames(user, "")}
	if user == "" {
		return g
	}
	g.by = byCertificate
	if g.account = a.state.Load().users.find(user); g.account != nil {
		g.by = byPassword
	}
	return g
}

// Renew returns what a client is allowed now that connected with g, without another login. It
// returns at once. Its subscriptions are to be judged again. Errors: [ErrDenied] if its user was
// removed, or has another password; [ErrClientID].
func (a *Access) Renew(g *Grant, clientID string) (*Grant, error) {
	s := a.state.Load()
	if !g.holds(s) {
		return nil, ErrDenied
	}
	g, _, err := a.admit(s, g.by, g.names.user, g.account, clientID)
	return g, err
}
