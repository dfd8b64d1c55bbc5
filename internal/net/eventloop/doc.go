// Package eventloop serves many stream sockets with one goroutine, by epoll(7). Linux only.
//
// An idle connection costs no goroutine and no buffer: 24 bytes that its owner embeds, and a place of
// 16 bytes. gnet's poller watches it. Input is read into a buffer of the loop, at most [Slice] bytes of
// a connection in its turn, so that none keeps the others waiting. A connection can be paused, and then
// sends against a full socket.
//
// A marker tells how far a loop has come: when it is passed, the loop has read all that was in its
// sockets when the marker was set, but for those that are paused. It relies on the order in which
// epoll_wait(2) returns sockets: that in which they became ready.
//
// A loop may have a table of descriptors of its own, and then a thread: see [NewWithTable]. The limit on
// open files holds for each table.
package eventloop
