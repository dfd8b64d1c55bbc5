// Package score reads the verdicts of a gateway or a broker on a simulated fleet, and checks them
// against ground truth.
//
// It has two halves. A [Follower] reads verdicts: [HTTP] the event streams of Holter's API, [MQTT]
// retained state topics and the events of EMQX. A [Score] takes them, together with what the
// playing processes did ([plan.Truth]), and finds the wrong verdicts. [Limits] decides
// which reports pass.
//
// # What is judged
//
// An offline verdict has a deadline: the one that it tells, else the instant at which the heard
// silence that it tells reached the timeout, else its own. It is a false offline unless the truth
// has an absence of the device that was due by then: the last sign of life was a timeout before, or
// the connection had ended a close grace before, or a goodbye had been said; and that had not ended
// with a return. A verdict that tells no deadline, as brokers' do, may come up to a slack ([New])
// after the return. A device that the truth does not speak of was alive all the time.
//
// An absence that lasted for longer than the slack beyond its deadline and has no verdict is a missed
// offline, until one comes. One that comes more than it after the gateway had heard that the
// device was back is a false offline, whatever it says of itself. Latency counts from the deadline
// by the truth to the arrival. Time in which the source was deaf (source.deaf and source.heard)
// moves that deadline, and so excuses what comes late or not at all; it never excuses a false
// offline. How long that was, and whether the gateway answered meanwhile, is part of the report.
//
// What a gateway reports about itself is checked wherever possible: an event's time is not after
// its arrival and not before the previous event's, and the event must be able to follow that one.
// Times are brought to the clock of this machine: [HTTP] measures the other one.
//
// A listening clock that is behind, because input waits to be read, reaches deadlines later. A device
// that was back after its deadline, but before the clock of its source had reached it, is not
// missed: the gateway publishes how far its clocks are behind ([Behind]), and 30 s of that are
// believed. A clock that has judged another device by a later deadline has reached that, whatever it
// says. One that is behind excuses no false offline, and no device that stays away.
//
// A device that said hello and closed the connection itself, because nothing answered in time, may
// have been heard. Then it was online, and its connection ended: a verdict for that reason is right
// from a close grace after the device closed it. Such a hello also puts off the deadline of an
// absence that it falls into, if it came before that.
//
// A connection that the gateway ended ([plan.Lost]) is judged by what the device had sent: silence is
// due a timeout after the last sign of life. When exactly the gateway ended it is known to the
// gateway alone, so a verdict for that reason is accepted from a close grace after the last sign of
// life on.
//
// A device that stalls is heard until its socket is full, one that sleeps may be judged once it
// does not come back, and one whose duplicate does not get in is silent: verdicts on these are
// neither right nor wrong, and counted as excused.
//
// When a process that plays a part of the fleet dies, the truth about it ends ([Score.Unknown]):
// verdicts of later deadlines are unjudged, and what is due later is not missed. Its earlier
// verdicts are judged, and all numbers of events are checked.
//
// # Several gateways
//
// Followed at several addresses, gateways are taken to know nothing of each other, as processes
// that share a port do. A device that comes back at another gateway is gone for the first one: its
// verdict on the device is right, as soon as the other one has said that the device is there.
// Numbers of events are checked for each gateway by itself.
//
// # Cost
//
// A table indexed by device number, with some 150 bytes for a device that a gateway spoke of, and 80
// more for an absence until it is over and judged, and for an offline verdict that waits for its
// truth, until [Score.JudgeUntil].
package score
