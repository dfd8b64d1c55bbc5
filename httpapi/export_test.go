package httpapi

// Flights lets tests count what is being handled.
type Flights struct{ *flights }

// NewFlights returns flights.
func NewFlights() Flights { return Flights{newFlights()} }

// Enter begins something.
func (f Flights) Enter() uint32 { return f.enter() }

// Leave ends it.
func (f Flights) Leave(turn uint32) { f.leave(turn) }

// Next ends the turn.
func (f Flights) Next() uint32 { return f.next() }

// Empty says whether a turn that ended is empty.
func (f Flights) Empty(turn uint32) bool { return f.empty(turn) }

// Landed receives when it became so.
func (f Flights) Landed() <-chan struct{} { return f.landed }
