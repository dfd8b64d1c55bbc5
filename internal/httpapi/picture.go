package httpapi

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness"
)

const (
	// pictureEvery is how long a picture of the fleet is used at least. Taking them costs at most one
	// pictureShare-th of the time.
	pictureEvery = 500 * time.Millisecond
	pictureShare = 20
	pictureMeans = "A picture of the fleet is taken when somebody asks, at most twice a second, and less often in large fleets, so that taking them costs " +
		"at most a twentieth of a processor."
)

// picture is how the whole fleet was at an instant, by the numbers of the devices. It is never changed.
type picture struct {
	at       time.Time
	version  uint64 // of cells; the next one with another is one greater
	cells    []byte // two devices a byte, see fleetMap
	groups   []uint16
	devices  int // with those that have no number
	numbered int
	names    []string      // of the groups
	counts   []stateCounts // by place of the group, last those of none

	maps  [mapKinds]*fleetMap
	sizes func() string // header of mapByGroup
}

// stateCounts are numbers of devices by state.
type stateCounts [liveness.Pending + 1]int

// states returns the counts by the names of the states.
func (c *stateCounts) states() map[string]int {
	return statesOf(func(s liveness.State) int { return c[s] })
}

// all returns the counts of the whole fleet.
func (p *picture) all() (all stateCounts) {
	for i := range p.counts {
		for s, n := range p.counts[i] {
			all[s] += n
		}
	}
	return all
}

// statesOf returns the counts of all states by name.
func statesOf(count func(liveness.State) int) map[string]int {
	states := make(map[string]int)
	for s := liveness.NeverSeen; s <= liveness.Pending; s++ {
		states[s.String()] = count(s)
	}
	return states
}

// pictures takes pictures of a fleet on request, and knows by what the latest ones differ. Make one with
// newPictures.
type pictures struct {
	start uint64 // the first version: a random number, so that one of another process is recognized

	mu       sync.Mutex // guards the fields below; held while a picture is taken, because waiting requests want the same one
	last     *picture
	until    time.Time // last is used until then
	grouping uint64    // version of the groups
	history  mapHistory
}

func newPictures() *pictures {
	var b [8]byte
	_, _ = rand.Read(b[:])                                         // it never fails
	return &pictures{start: binary.BigEndian.Uint64(b[:])>>16 + 1} // a number that JavaScript holds exactly
}

// latest returns a picture that was taken at most some 500 ms ago, or by a bit more in a large fleet.
func (p *pictures) latest(registry *liveness.Registry) *picture {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && time.Now().Before(p.until) {
		return p.last
	}
	at := time.Now()
	p.last = p.takePicture(registry, at)
	took := time.Since(at)
	p.until = at.Add(took + max(pictureEvery, pictureShare*took))
	return p.last
}

// takePicture takes a picture, and notes by what it differs from the last one.
func (p *pictures) takePicture(registry *liveness.Registry, at time.Time) *picture {
	next := &picture{at: at, version: p.start, names: mapped(registry.Groups(), func(g *liveness.GroupView) string { return g.Name })}
	next.survey(registry)
	if last := p.last; last != nil {
		if next.version = last.version; bytes.Equal(next.cells, last.cells) {
			next.cells = last.cells
		} else {
			next.version++
			p.history.add(mapChangeOf(last.cells, next.cells, next.version))
		}
		if slices.Equal(next.groups, last.groups) {
			next.groups = last.groups
		}
		if !slices.Equal(next.groups, last.groups) || !slices.Equal(next.names, last.names) {
			p.grouping++
		}
	}
	next.makeMaps(p.last, p.start, p.grouping)
	return next
}

// survey fills in what is to be seen of the devices. It leaves out numbers that are given meanwhile.
func (p *picture) survey(registry *liveness.Registry) {
	bound := registry.Operator().Numbers()
	p.cells, p.groups = make([]byte, (bound+1)/2), make([]uint16, bound)
	p.counts = make([]stateCounts, len(p.names)+1)
	registry.Operator().Survey(p.names, func(number uint32, state liveness.State, group int) {
		p.devices++
		place := group
		if group < 0 {
			place = len(p.counts) - 1
		}
		p.counts[place][state]++
		if n := int(number); n > 0 && n < bound {
			setCell(p.cells, n, cellOf(state))
			p.groups[n] = uint16(min(group+1, math.MaxUint16))
		}
	})
	for _, two := range p.cells {
		if two&0xf != noDevice {
			p.numbered++
		}
		if two>>4 != noDevice {
			p.numbered++
		}
	}
}

// makeMaps makes the maps of a picture, or takes those of the last one that are the same. It may be nil.
func (p *picture) makeMaps(last *picture, start, grouping uint64) {
	states, group := strconv.FormatUint(p.version, 36), strconv.FormatUint(start, 36)+"-"+strconv.FormatUint(grouping, 36)
	ordered := sync.OnceValues(func() ([]byte, []int) { return byGroup(p.cells, p.groups, len(p.counts)-1) })
	p.maps = [mapKinds]*fleetMap{
		mapOfStates: newFleetMap(states, func() []byte { return p.cells }),
		mapOfGroups: newFleetMap(group, func() []byte { return groupBytes(p.groups) }),
		mapByGroup: newFleetMap(states+"-"+group, func() []byte {
			cells, _ := ordered()
			return cells
		}),
	}
	p.sizes = func() string {
		_, sizes := ordered()
		return joined(sizes)
	}
	if last == nil {
		return
	}
	for kind, m := range last.maps {
		if m.tag == p.maps[kind].tag {
			p.maps[kind] = m
		}
	}
	if p.maps[mapByGroup] == last.maps[mapByGroup] {
		p.sizes = last.sizes
	}
}

// since returns the messages that lead from a version of the map to the latest one, and that one's version;
// false if the map must be read anew.
func (p *pictures) since(version uint64) (messages [][]byte, latest uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages, ok = p.history.since(version, p.last.version)
	return messages, p.last.version, ok
}
