package shm

// Chunks hands out blocks of one kind and owner. It is a memory for the packages timer and dualmap.
type Chunks struct {
	memory      *Memory
	kind, owner uint32
}

// Chunks returns a memory whose blocks are of one kind and owner.
func (m *Memory) Chunks(kind, owner uint32) *Chunks { return &Chunks{m, kind, owner} }

// Chunk is [Memory.Block].
func (c *Chunks) Chunk(size int) []byte { return c.memory.Block(c.kind, c.owner, size) }
