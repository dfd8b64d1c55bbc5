// Package playbook does what is to be done about an event, step by step: ask the device, tell somebody, wait, look whether it is still
// offline, tell somebody else.
//
// A [Playbook] is a graph of steps (package dag). Each event that matches its trigger begins a run, and the run is a durable job of package
// delivery: what its steps have come to is stored, so a run outlives the process, and one that waits takes no goroutine and no memory. Runs of
// one device and playbook come one after the other; runs of different devices do not wait for each other.
//
// # What is done once
//
// A step is done once its outcome is stored, and is not begun again then. A step whose process dies before that is begun again. What
// webhooks and other endpoints are told is a job of its own, made at most once for a step of a run, unless the process dies right after and is
// not begun again for a day, which is how long the keys of jobs are kept; whoever gets it may get it twice only as package delivery says, and
// then under the same id. A command that was running in that moment is run again.
//
// A run whose definition has changed meanwhile goes on with the new one: what is done is known by the steps' names.
//
// # Recovery
//
// A run is about something that may be over before it ends: the device is online again, the outage has ended, the source is heard. By
// [Playbook.Recovery] it then ends, goes on, or goes on with other steps. That is looked at before each step, and a run that waits is woken
// for it. What counts are the events that are stored, not what the state happens to be when somebody looks: a device that was online for a
// moment and is offline again has recovered, and its second silence is another run.
//
// # Cost
//
// A step costs a row, and a part of a transaction: steps that end at about the same time are written together.
package playbook
