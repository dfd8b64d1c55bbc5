// Package shm is memory that outlives the process: a shared mapping of a file on a tmpfs. What a process stored there, it has stored when
// it is killed, be it between two instructions; the kernel keeps the pages. A loss of power, a reboot, or the end of the container whose
// /dev/shm it is, takes them.
//
// A life is what one process writes under one key. [Create] begins one beside what the life before has left, which [Read] returns;
// [Memory.Publish] puts it in its place. Whoever is killed in between leaves the remains of the life before as they were,
// and its own beside them: Read finds either by its key.
//
// The file must be on a tmpfs. On a disk, a store to the mapping waits for the disk whenever the kernel has written the page back
// meanwhile. It is a file of its user's alone, and is locked while its process lives. All of its pages are allocated before they are mapped:
// where there is no room, [Memory.Block] says so, and no store is answered with SIGBUS. Only a file that somebody else truncates does
// that.
//
// It works on Linux. On other systems Create and Read return [errors.ErrUnsupported].
package shm
