// Package judgement decides what a device's silence means. Its decisions are pure functions: all instants
// are arguments, and they know no registry, no source and no socket. Only [Calendars], which keep the meaning
// of texts that were parsed before, have a lock, and [Deafness] is read while it is written.
//
// A [Condition] is what is known of a device. Each thing that happens to the device makes a new one of it:
// [Condition.Heard], [Condition.Closed], [Condition.Left] and their like. [Condition.Verdict] says when the
// device is judged offline, and why, if nothing is heard of it; [Condition.Next] says what is to be done
// before, and [Condition.Passed] is the condition once the clock has come that far. A [Policy] is how long
// the device may be silent.
//
// Instants are in listening time, which stands still while nobody listens. [Deafness] is what such times put
// off. A [Course] maps listening time to wall time, and a [Pace] counts only what a policy's windows
// ([ParseQuiet]) and schedule ([ParseExpect]) let count.
//
// A [Judge] uses all this to say what another policy would have made of a [Gap] that was recorded.
package judgement
