// Command holter watches the heartbeats of a fleet and says of each device whether it is alive.
package main

func main() {}
