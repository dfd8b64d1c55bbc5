package gateway

import "time"

// Block keeps an event loop from reading for a while, and calls during meanwhile.
func Block(g *Gateway, loop int, length time.Duration, during func()) {
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	err := g.loops[loop].events.Execute(func() {
		close(entered)
		<-leave
		close(left)
	})
	if err != nil {
		panic(err)
	}
	<-entered
	during()
	<-time.After(length)
	close(leave)
	<-left
}
