package dag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A layout says where the nodes and the arrows of a drawing are, in pixels. The nodes stand in layers, each below all those before it. An
// arrow over several layers bends around the boxes between: it has a joint in each of these layers. Layers are ordered by the means of
// the neighbors above and below (Sugiyama, Tagawa and Toda, Methods for visual understanding of hierarchical system structures, 1981).
type layout struct {
	nodes         int   // how many there are
	boxes         []box // of the nodes, then the joints
	layers        [][]int
	above, below  [][]int // neighbors of each box in the layers next to its own
	routes        []route
	width, height float64
}

// A box is the place of a node or of a joint, by its center.
type box struct{ x, y, width, height float64 }

// A route is the arrow between two nodes.
type route struct {
	to     int
	points [][2]float64
}

const (
	// maxJoints is the largest number of joints; arrows have none beyond it.
	maxJoints = 20_000
	// sweeps is how often the order in the layers is improved, and then the places.
	sweeps = 12
)

// layout places the nodes.
func (d Drawing) layout() *layout {
	n := len(d.Nodes)
	after := make([][]int, n)
	d.edges(func(from, to int) { after[from] = append(after[from], to) })
	layer := layersOf(after)
	l := &layout{nodes: n, boxes: make([]box, n), above: make([][]int, n), below: make([][]int, n)}
	for i := range d.Nodes {
		l.boxes[i].width, l.boxes[i].height = d.Nodes[i].size()
		l.place(i, layer[i])
	}
	ways := l.connect(after, layer)
	for sweep := range sweeps {
		l.order(sweep%2 == 0)
	}
	l.pack()
	for sweep := range sweeps {
		l.align(sweep%2 == 0)
	}
	l.frame()
	for _, way := range ways {
		l.route(way)
	}
	return l
}

// layersOf returns the layer of each node: the longest way to it. Where nodes come after each other in a circle, the first of them is
// taken for one that has none before it.
func layersOf(after [][]int) []int {
	n := len(after)
	layer, pending, taken := make([]int, n), make([]int, n), make([]bool, n)
	for _, list := range after {
		for _, s := range list {
			pending[s]++
		}
	}
	var queue []int
	take := func(i int) {
		taken[i] = true
		queue = append(queue, i)
	}
	for i := range n {
		if pending[i] == 0 {
			take(i)
		}
	}
	for at, first := 0, 0; at < n; at++ {
		for at == len(queue) {
			if !taken[first] {
				take(first)
			}
			first++
		}
		i := queue[at]
		for _, s := range after[i] {
			if taken[s] {
				continue
			}
			layer[s] = max(layer[s], layer[i]+1)
			if pending[s]--; pending[s] == 0 {
				take(s)
			}
		}
	}
	return layer
}

// place adds a box to its layer.
func (l *layout) place(i, layer int) {
	for len(l.layers) <= layer {
		l.layers = append(l.layers, nil)
	}
	l.layers[layer] = append(l.layers[layer], i)
}

// connect sets the neighbors of all boxes and makes the joints. It returns for each arrow the boxes that it passes.
func (l *layout) connect(after [][]int, layer []int) (ways [][]int) {
	joints := 0
	for from, list := range after {
		for _, to := range list {
			way := []int{from}
			if more := layer[to] - layer[from] - 1; more > 0 && joints+more <= maxJoints {
				joints += more
				for at := layer[from] + 1; at < layer[to]; at++ {
					i := len(l.boxes)
					l.boxes = append(l.boxes, box{width: 4})
					l.above, l.below = append(l.above, nil), append(l.below, nil)
					l.place(i, at)
					way = append(way, i)
				}
			}
			way = append(way, to)
			for k, i := range way[1:] {
				l.below[way[k]] = append(l.below[way[k]], i)
				l.above[i] = append(l.above[i], way[k])
			}
			ways = append(ways, way)
		}
	}
	return ways
}

// order sorts each layer by where the neighbors above, or below, are.
func (l *layout) order(down bool) {
	rank := make([]float64, len(l.boxes))
	for _, layer := range l.layers {
		for at, i := range layer {
			rank[i] = (float64(at) + 0.5) / float64(len(layer))
		}
	}
	l.eachLayer(down, func(layer []int, near [][]int) {
		for _, i := range layer {
			if len(near[i]) > 0 {
				sum := 0.0
				for _, k := range near[i] {
					sum += rank[k]
				}
				rank[i] = sum / float64(len(near[i]))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(rank[a], rank[b]) })
		for at, i := range layer {
			rank[i] = (float64(at) + 0.5) / float64(len(layer))
		}
	})
}

// eachLayer calls do for each layer from the second one on, from the top or from the bottom, with the neighbors that come before it.
func (l *layout) eachLayer(down bool, do func(layer []int, near [][]int)) {
	for k := 1; k < len(l.layers); k++ {
		if down {
			do(l.layers[k], l.above)
		} else {
			do(l.layers[len(l.layers)-1-k], l.below)
		}
	}
}

// apart is how far the centers of two boxes side by side are apart at least.
func (l *layout) apart(left, right int) float64 {
	return (l.boxes[left].width+l.boxes[right].width)/2 + columnGap
}

// pack places the boxes of each layer side by side, around 0, and the layers below each other.
func (l *layout) pack() {
	y := 0.0
	for _, layer := range l.layers {
		x, height := 0.0, 0.0
		for at, i := range layer {
			if at > 0 {
				x += l.apart(layer[at-1], i)
			}
			l.boxes[i].x = x
			height = max(height, l.boxes[i].height)
		}
		for _, i := range layer {
			l.boxes[i].x -= x / 2
			l.boxes[i].y = y + height/2
			if i >= l.nodes { // an arrow goes straight down between the boxes
				l.boxes[i].height = height
			}
		}
		y += height + layerGap
	}
	l.height = max(0, y-layerGap)
}

// align moves the boxes of each layer as near as they can to the middle of their neighbors above, or below, in this order: the least
// squares under the condition that they keep apart, by pooling those that would not (Ayer et al., 1955).
func (l *layout) align(down bool) {
	l.eachLayer(down, func(layer []int, near [][]int) {
		type pool struct {
			mean, weight float64
			size         int
		}
		var pools []pool
		offset := make([]float64, len(layer)) // of each box from the first one, if all stand side by side
		for at, i := range layer {
			if at > 0 {
				offset[at] = offset[at-1] + l.apart(layer[at-1], i)
			}
			p := pool{mean: l.wish(i, near[i]) - offset[at], weight: l.weight(i, near[i]), size: 1}
			for len(pools) > 0 && pools[len(pools)-1].mean > p.mean {
				last := pools[len(pools)-1]
				pools = pools[:len(pools)-1]
				weight := last.weight + p.weight
				p = pool{(last.mean*last.weight + p.mean*p.weight) / weight, weight, last.size + p.size}
			}
			pools = append(pools, p)
		}
		at := 0
		for _, p := range pools {
			for range p.size {
				l.boxes[layer[at]].x = p.mean + offset[at]
				at++
			}
		}
	})
}

// wish returns where a box would stand if it were alone.
func (l *layout) wish(i int, near []int) float64 {
	if len(near) == 0 {
		return l.boxes[i].x
	}
	sum := 0.0
	for _, k := range near {
		sum += l.boxes[k].x
	}
	return sum / float64(len(near))
}

// weight returns how much the wish of a box counts: most for joints, so that long arrows are straight.
func (l *layout) weight(i int, near []int) float64 {
	switch {
	case len(near) == 0:
		return 0.1
	case i >= l.nodes:
		return 4
	}
	return 1
}

// frame moves all boxes to the right of 0.
func (l *layout) frame() {
	if len(l.boxes) == 0 {
		return
	}
	left, right := l.boxes[0].x, l.boxes[0].x
	for _, b := range l.boxes {
		left, right = min(left, b.x-b.width/2), max(right, b.x+b.width/2)
	}
	for i := range l.boxes {
		l.boxes[i].x -= left
	}
	l.width = right - left
}

// route adds the arrow that passes these boxes.
func (l *layout) route(way []int) {
	r := route{to: way[len(way)-1]}
	for at, i := range way {
		b := l.boxes[i]
		if at > 0 {
			r.points = append(r.points, [2]float64{b.x, b.y - b.height/2})
		}
		if at < len(way)-1 {
			r.points = append(r.points, [2]float64{b.x, b.y + b.height/2})
		}
	}
	l.routes = append(l.routes, r)
}

// path returns the arrow as an SVG path: curves that leave and reach each point vertically.
func (r route) path() string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", r.points[0][0], r.points[0][1])
	for k := 1; k < len(r.points); k++ {
		from, to := r.points[k-1], r.points[k]
		if from == to {
			continue
		}
		middle := (from[1] + to[1]) / 2
		fmt.Fprintf(&b, "C%.1f %.1f %.1f %.1f %.1f %.1f", from[0], middle, to[0], middle, to[0], to[1])
	}
	return b.String()
}
