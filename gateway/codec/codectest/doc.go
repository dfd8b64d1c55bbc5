// Package codectest checks that a device protocol keeps to what package codec asks of it. Whoever
// writes a codec calls [Run] from a test and [Fuzz] from a fuzz target, with a conversation of a
// real device:
//
//	func TestBeacon(t *testing.T) {
//		codectest.Run(t, codectest.Kit{
//			Protocol: Beacon{},
//			Stream:   []byte("I pump-3\nB\nB\n"),
//			Want:     []codec.Kind{codec.Hello, codec.Beat, codec.Beat},
//			IDs:      []string{"pump-3"},
//		})
//	}
//
//	func FuzzBeacon(f *testing.F) {
//		codectest.Fuzz(f, codectest.Kit{Protocol: Beacon{}}, []byte("I pump-3\nB\nB\n"))
//	}
//
// The example below is the whole of such a codec. [Run] has a subtest for each promise: what the
// messages mean, that the way in which the network cut them does not matter, that garbage neither
// makes the codec panic nor wait forever, that answers are bounded, that a heartbeat allocates
// nothing. A failure says what the codec did, with the bytes that it was given, and what to do.
//
// The kit plays the gateway. What the codec was given is overwritten as soon as the codec may no
// longer look at it, so that a codec that keeps a slice of its input fails here and not in
// production. Nothing depends on time or chance: random bytes are the same in each run.
package codectest
