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
	for round, want := range []int{crowd / 100, crowd/100 - 1} {
		strangers := 0
		taken := cl.take()
		for _, e := range taken {
			if e.err != nil {
				strangers++
			}
		}
		if len(taken) != 2+want || strangers != want {
			t.Errorf("round %d: %d, %d of them strangers, want 2 and %d", round, len(taken), strangers, want)
		}
	}
}
