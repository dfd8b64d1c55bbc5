// Package availability works out from the events of a device which part of a window of time it was
// online.
//
// Only time in which its source listened counts, and only time without maintenance: a device is not
// blamed for a server that was deaf, and not praised for it either. A device is offline from its
// verdict on: the silence before it counts as the state that the device had.
//
// A [History] takes the events of one device from the latest back, because that is how a log that
// links each event to the one before gives them, and needs none before the one that was in force when
// the window began. It holds no events. A [Total] adds up the figures of many devices. The package reads no
// clock and knows no database. Nothing in it is safe for concurrent use but a [Deafness].
package availability
