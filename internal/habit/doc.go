// Package habit learns how a device beats, in eight bytes, and which deadline fits it.
//
// A [Habit] has the scale of a device: the median of its gaps, and the longest of late. A [Shape] has what
// the gaps of many devices look like as multiples of their medians. A deadline follows from both and from a
// budget: how many false alarms a month somebody accepts of a device, see [Habit.Deadline]. One device alone
// needs months to show what it does once a month; its peers show it within hours.
//
// The package knows no clock and takes no lock. A gap costs two logarithms and a few additions.
//
// That a deadline may be learned from arrivals is due to Chen, Toueg and Aguilera ("On the quality of
// service of failure detectors", IEEE Transactions on Computers 51, 2002); the separation of scale and
// shape, the classes and what is not learned are Holter's.
package habit
