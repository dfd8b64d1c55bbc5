package sqldb

import "testing"

// What a process knows of fences, also of those of which it does not know whether it raised them.
func TestTermsKnowFences(t *testing.T) {
	var k Terms
	is := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	foreign, first, other, second := fence{1, 1}, fence{2, 2}, fence{3, 3}, fence{4, 4}
	is("had before all", k.had(foreign), false)
	is("resumes after another one", k.resumes(foreign, fence{2, 9}), false)
	is("resumes after another one, tried again", k.resumes(foreign, first), false)
	k.took(foreign, first)
	is("had that of the one before", k.had(foreign), false)
	is("had its own", k.had(first), true)
	is("a new holder is a loss", k.see(judgeRow{fence: other}), false)
	is("had its own, when another one came", k.had(first), false)
	is("the holder before is a loss", k.see(judgeRow{fence: first}), true)
	is("resumes", k.resumes(first, fence{4, 9}), true)
	is("resumes when it is not known whether that was raised", k.resumes(fence{4, 9}, second), true)
	k.took(fence{4, 9}, second)
	is("had the first", k.had(first), true)
	is("had the latest", k.had(second), true)
	for n := range int64(2 * mostFences) {
		is("resumes", k.resumes(second, fence{5 + n, 1}), true)
		second = fence{5 + n, 1}
	}
	if len(k.ours) > mostFences+1 {
		t.Errorf("%d fences are remembered", len(k.ours))
	}
}
