package plan

import (
	"fmt"
	"slices"
	"strings"
)

// kindWords are the words of scenario files for the kinds; Lost has none.
func kindWords() [Signal + 1]string {
	return [...]string{
		Bye: "bye", Close: "close", Reset: "reset", Silent: "silent", Crash: "crash", Stall: "stall", Duplicate: "duplicate",
		Sleep: "sleep", Move: "move", Reconnect: "reconnect", Signal: "signal",
	}
}

// KindNames lists the words for all kinds, in their order.
func KindNames() []string {
	all := kindWords()
	return all[Bye:]
}

// String returns the word for a kind, as scenario files have it.
func (k Kind) String() string {
	if k == Lost || k > Signal {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindWords()[k]
}

// ParseKind is the inverse of [Kind.String]; false if there is no such kind. It allows upper case.
func ParseKind(text string) (Kind, bool) {
	i := slices.IndexFunc(KindNames(), func(word string) bool { return strings.EqualFold(word, text) })
	return Bye + Kind(max(i, 0)), i >= 0
}

// Returns reports whether a device is back at once if [Act.Back] is 0, which for other kinds means
// that it is gone for good. A device that does [Reconnect] then waits for its back-off, as after
// any lost connection.
func (k Kind) Returns() bool { return k == Duplicate || k == Move || k == Reconnect }
