package gateway

// maxPackets is how many answers to datagrams are held at a time; others are not given.
const maxPackets = 1 << 16

// packet is the answer to a datagram while it is held. It need not stay behind the answers to
// others, whose order is not certain anyway.
type packet struct {
	reader *reader
	to     endpoint
	held   *held
	room   int // it may be as long as this; -1 for one to somebody who has proved whose the datagram was
}

// later sends the answer that is held to where the datagram came from, once it is committed. room
// is the datagram's length.
func (r *reader) later(room int, proven bool) {
	if r.udp.counts.held.Add(1) > maxPackets {
		r.udp.counts.held.Add(-1)
		r.udp.counts.unsent.Add(1)
		return
	}
	if proven {
		room = -1
	}
	p := &packet{reader: r, to: r.batch.from[r.current], held: r.exchange.held, room: room}
	p.to.anyInterface()
	var waiting []holding
	for _, a := range p.held.answers {
		if a.waits {
			waiting = append(waiting, holding{p, a})
		}
	}
	r.udp.gateway.holds.Add(waiting...) // from now on the packet is not ours
}

// where implements holder.
func (p *packet) where() *loop { return nil }

// settled implements holder. It sends the packet once nothing in it waits.
func (p *packet) settled(a *answer, committed bool) {
	a.settle(committed)
	for _, a := range p.held.answers {
		if a.waits {
			return
		}
	}
	counts := &p.reader.udp.counts
	counts.held.Add(-1)
	out := p.held.takeAnswers(nil)
	if p.room >= 0 && len(out) > p.room {
		counts.withheld.Add(1)
	} else if err := sendTo(p.reader.raw, &p.to, out); err != nil {
		counts.unsent.Add(1)
	}
}
