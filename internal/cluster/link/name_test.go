package link_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link"
)

// An ear with the name of another ends; one that gets the name within 10 s, as when the other has just
// died, does not.
func TestNameTaken(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		one := f.ear("one")
		defer one.stop()
		f.wait(time.Second)
		two := f.ear("one")
		two.ends = link.ErrNameTaken
		f.wait(12 * time.Second)
		two.stop()
		if n := two.joinings(); n > 0 || one.joinings() != 1 || one.lettings() > 0 {
			t.Errorf("the second has joined %d times, the first %d, and it has let go %d times", n, one.joinings(), one.lettings())
		}
		for range 2 { // also after it had the name itself
			three := f.ear("one")
			f.wait(8 * time.Second)
			one.stop()
			f.wait(4 * time.Second)
			if three.joinings() != 1 {
				t.Error("an ear has not joined though its name was free again")
			}
			one = three
		}
		one.stop()
	})
}

// An ear is told that it has a judge when it had none, and not when its link was lost for a moment.
func TestJoined(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		one := f.ear("one")
		defer one.stop()
		for _, step := range []struct {
			cut, wait        time.Duration
			joined, lettings int
		}{{0, time.Second, 1, 0}, {time.Second, 2 * time.Second, 1, 0}, {5 * time.Second, 2 * time.Second, 2, 1}} {
			if step.cut > 0 {
				f.breakLinks(true)
				f.wait(step.cut)
				f.breakLinks(false)
			}
			f.wait(step.wait)
			if got, lettings := one.joinings(), one.lettings(); got != step.joined || lettings != step.lettings {
				t.Errorf("after %v without a link: joined %d times and let go %d times, want %d and %d", step.cut, got, lettings, step.joined, step.lettings)
			}
		}
	})
}
