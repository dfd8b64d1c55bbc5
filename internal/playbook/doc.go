// Package playbook runs actions after an event, step by step: probe the device, send a
// notification, wait, check whether the device is still offline, send another notification.
//
// A [Playbook] is a graph of steps (package dag). Each event that matches its trigger starts a run.
// A run is a durable job of package delivery: the results of its steps are stored, so that it
// outlives the process, and it needs no goroutine and no memory while it waits. Runs of the same
// device and playbook follow one another; runs of different devices do not wait for each other.
//
// # What is done once
//
// A step is done when its result is stored, and is not started again then. A step whose process
// dies before that is started again. A message to an endpoint is a job of its own, which is created
// at most once for a step of a run, unless the process dies directly after and does not come back
// for a day, which is how long the keys of jobs are kept. Its receiver may get it twice only as
// package delivery says, with the same id. A command that was running when the process died runs
// again.
//
// A run whose definition has changed continues with the new one: its steps are recognised by their
// names.
//
// # Recovery
//
// The subject of a run may recover before the run ends: the device is online again, the outage has
// ended, the source hears again. [Playbook.Recovery] reports whether the run is then canceled,
// continues, or is diverted. This is checked before each step, and wakes a waiting run. Stored
// events decide, not the current state: a device that was online for a moment and is offline again
// has recovered, and its second silence starts another run.
//
// # Cost
//
// A step costs a row and a part of a transaction. Steps that end at about the same time are stored
// together.
package playbook
