// Package chaos runs a server of the program again and again through the worst
// that can happen to it, with a fleet of scripted devices, and proves from the
// complete log of events that it judged each of them rightly.
//
// # What is done
//
// [Run] starts the server as a child process, with its default settings. At
// instants that follow from a seed it kills it, once or in a crash loop, stops
// and continues it, once or again and again, leaves it little of a core, ends it
// in order, fills its disk, takes its database away or, in the end, destroys it,
// and starts the server again on the same ports. The devices meanwhile beat, fall
// silent, close, say goodbye and come back; a healthy one that lost its connection
// dials again until it is heard. Some beat for the last time just before a kill,
// and operators write just before one.
//
// # What is known
//
// The program caused every outage, so it knows between which instants the server
// was deaf for certain, and between which it may have been; see [Break]. What the
// server says of its being deaf excuses nothing. Each device keeps a journal of its
// signs of life, read just before the system call that hands them over, and of
// the answers to them.
//
// # What is checked
//
// [Score] is a pure function of that and of the log. It errs on the side of
// the server only by what nobody can know from outside: whether a heartbeat that
// was not answered had been read, a second of listening for each break, and
// how late a verdict may come on a busy machine (Epsilon). A device that beats as
// it should has no such gap: any verdict on it is a false one. A dead device must
// be judged once it was silent, in listening time, for its timeout and three
// graces, whatever was done to the server; see [Policy].
//
// The package needs Linux.
package chaos
