// Package replay answers what another setting would have done: which timeout would have given how many
// false alarms, and how late real outages would have been seen. It judges the silences that are recorded,
// package liveness calls them gaps, again with another policy, by the very functions that judge.
//
// A silence counts where it began in the window. It is
//
//   - a false alarm, if it was judged although a heartbeat of the same session ended it. Where nothing shows
//     the difference between a slow device and one that was restarted, a silence up to twice the device's
//     timeout of today counts as false alarm, and a longer one as outage: a device without sessions, and one
//     whose session was ended because it was judged.
//   - an outage, if another session or a goodbye ended it, if the connection had ended, or if it is not over
//     and today's policy has judged it. One that is not over and not judged yet is undecided, and counts as
//     neither.
//
// Silences in maintenance are counted apart and not judged. Devices that only a broker tracks have none. A device
// that has to send several heartbeats in a row before it is online again is not judged again before that.
//
// Only silences beyond a limit are recorded, half of a device's timeout or so. A value is exact for a device
// if it was not below the device's limit in the whole window. Below that, the counts are lower bounds, and
// say so. What is not known is left out: the time before the first record, devices that were forgotten
// since, and probes, since nobody knows what a device would have answered.
//
// An Engine starts no goroutine. A question reads the records twice, and costs some 200 ns for each silence
// and value that could judge it, beside what the records cost; memory grows with the devices, not with the
// silences.
package replay
