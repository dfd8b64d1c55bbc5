// Package timer holds very many timers that are renewed far more often than they expire: sessions,
// leases, keepalives, the heartbeats of a fleet. A renewal ([Engine.Touch]) costs one
// compare-and-swap: no lock, no channel, no heap operation, no allocation. It is not a calendar: an
// instant is a [time.Duration] on the engine's [Clock]; only [Engine.AtTime] knows the wall clock.
//
// # How it works
//
// Each timer is one atomic word in a slot: its generation and its deadline. That word is the only
// truth. A heap of eight-byte entries says "look at this slot then"; an entry is a hint, and a
// wrong one costs a look, never a wrong expiry. Touching a timer changes the word and leaves the
// heap alone; when the hint comes due and the deadline has moved on, the hint is keyed anew. So a
// timer costs one heap operation for each period that passes, however often it is touched.
// Cancelling a timer changes the word, too. Its hint and its slot are given back when the hint comes
// up, or swept out when such hints outnumber the armed timers.
//
// Timers are spread over shards. Each shard has a lock, a heap, slots, and one goroutine which
// sleeps until the earliest deadline. What is due goes through a ready queue to a pool of workers
// (ants), or to goroutines of their own if their number is [Unlimited]; the goroutine that watches
// the clock never waits for a callback.
//
// # Guarantees
//
//   - Never early: a callback starts only when the clock has reached the deadline. Deadlines are kept in units of [Resolution],
//     or of a finer [Config.Precision], rounded up.
//   - After Touch, TouchTo, Reset or Cancel returned true, the callback of the deadline that they replaced never starts.
//   - An arming fires at most once, and exactly once unless it is cancelled, moved or the engine is closed.
//   - An [ID] is never used again: neither after its timer ended nor for another timer in the same slot.
//   - A shard hands out the timers of a group in the order of their deadlines; only what was more than 2^30 units (a day and a
//     half) overdue when it was set comes in any order. With more than one worker, callbacks overlap.
//
// # Cost
//
// Touch and Remaining are O(1). With [Engine.Prefetch] the touches of many timers wait for memory
// together. Arm is O(log n) in the worst case and O(1) on average, Cancel is O(1) amortised. A timer
// with a handler takes some 31 bytes, a timer with a func of its own 8 bytes more, beside the
// closure. There is nothing in it for the garbage collector to scan but the funcs. Memory of ended
// timers is used again for new ones; only the heap shrinks.
//
// # Being killed
//
// The slots may lie in memory that outlives the process, see [Config.Memory]: then [Left] tells
// when each timer was touched last, and no touch that had returned true is missing. A touch costs
// the same there. Arming, cancelling and expiring cost some tens of nanoseconds more, a timer 8
// bytes more.
package timer
