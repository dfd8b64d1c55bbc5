// Package dualmap is a slab of slots that two kinds of identifier look into.
//
// An [Original] is what the user of an entry holds: a slot and the generation of its tenant. It
// stays good however often the entry changes, and is never confused with a later tenant of the same
// slot: a slot whose generations are used up is taken out of service instead of starting again.
//
// A [Current] is what an index over the entries carries, for instance a heap ordered by deadline: a
// slot and the arming under which it was put there. It is good only while it is the slot's latest.
// To drop or to move an entry of the index is therefore O(1): arm the slot anew, and the old index
// entry is dead where it lies. Whoever comes across it asks [Map.IsCurrent] and throws it away.
//
// Each slot is one atomic word, the generation and a value of [ValueBits] bits, and beside it, in the
// same cache line, a 32-bit parameter and the arming; 64 bits of data are in a column of their own.
// There are no pointers in it, so the garbage collector has nothing to scan. An entry costs
// [SlotBytes] bytes.
//
// # Concurrency
//
// [Map.Load], [Map.Cell], [Map.CompareAndSwap], [Map.Remove], [Map.Discard] and [Map.Param] may be
// called by any goroutine at any time; they take no lock. All other methods change or read the
// structure of the map, and need the lock that guards it, which is the caller's. [Map.Remove] and
// [Map.Discard] need it, too, on a map with a memory.
//
// # Memory
//
// A map may keep its entries in a [Memory], for instance a shared mapping of a file. When the
// process is killed, between whatever two of its instructions, [Scan] finds in the blocks of that
// memory every entry with its latest value, its data and its parameter. Loads and swaps cost the
// same as in the Go heap.
package dualmap
