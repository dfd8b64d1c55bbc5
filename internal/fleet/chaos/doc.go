// Package chaos runs a server of the program again and again through the worst
// that can happen to it, with a fleet of scripted devices, and proves from the
// complete log of events that it judged each of them rightly.
//
// # What is done
//
// [Run] starts the server as a child process. At instants that follow from a
// seed it kills it, stops and continues it, ends it in order, fills its disk or
// takes its database away, and starts it again on the same ports. The devices
// meanwhile beat, fall silent, close, say goodbye and come back; a healthy one
// that lost its connection dials again until it is heard.
//
// # What is known
//
// The program caused every outage, so it knows between which instants the server
// was deaf for certain, and between which it may have been; see [Break]. Each
// device keeps a journal of its signs of life, read just before the system call
// that hands them over.
//
// # What is checked
//
// [Score] is a pure function of that and of the log. It errs on the side of
// the server only by what nobody can know from outside: whether a heartbeat
// that was sent just before a kill had been read and saved, and how late a
// verdict may come on a busy machine (Epsilon). A device that beats as it should
// has no such gap: any verdict on it is a false one.
//
// The package needs Linux.
package chaos
