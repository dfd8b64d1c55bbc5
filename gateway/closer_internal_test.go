package gateway

import "testing"

// Those who never said who they are do not wait behind those who are closed at a rate.
func TestStrangersDoNotWait(t *testing.T) {
	var cl closer
	cl.init(200) // two at a time, but strangers a hundredth of them
	const crowd = 1000
	for range crowd {
		cl.add(nil, whySilence)
		cl.addError(nil, noHello(1))
	}
	for round, want := range []struct{ taken, strangers int }{{2, crowd / 100}, {2, crowd/100 - 1}} {
		taken, strangers := cl.take()
		if len(taken) != want.taken || len(strangers) != want.strangers {
			t.Errorf("round %d: %d and %d strangers, want %+v", round, len(taken), len(strangers), want)
		}
	}
}
