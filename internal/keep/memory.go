package keep

// Memory is memory that outlives the process. After the process was killed [Recall] finds in it
// what a registry has written.
type Memory interface {
	// Block returns size bytes, zeroed and aligned to eight, that are the caller's for as long as
	// the process lives. Recall must get them with the same kind and owner. Block returns nil if
	// there is no room. It may be called concurrently.
	Block(kind, owner uint32, size int) []byte
}

// The kinds of blocks, and what their owner is.
const (
	BlockState  uint32 = iota + 1 // one word: not 0 if there was no room for some block
	BlockSource                   // index of the source: see SourceWords, its name
	BlockTimers                   // index of the source: a chunk of its timers, whose data are device numbers and handles
	BlockHeard                    // number of the first device, by HeardPerBlock: their last signs of life that took the long way
)

const (
	// HeardPerBlock is how many devices a block of BlockHeard has.
	HeardPerBlock = 1 << 13
	// SourceWords is how many words a source has: its clock's reading, the wall time then, the
	// length of its name, and the latest turns of its course: how many there are, 0 while they are
	// written, and their listening and wall times.
	SourceWords = 4 + 2*TurnsInMemory
	// TurnsInMemory is how many turns are written. There are hardly ever more between two
	// checkpoints.
	TurnsInMemory = 16
)

// Block is a block of a [Memory] that another process has left.
type Block struct {
	Kind, Owner uint32
	Data        []byte
}
