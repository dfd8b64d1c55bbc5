// Places for the nodes of a graph without cycles: in layers from left to right, a node behind all that come before it.

export interface Node {
  name: string
  after?: string[]
}

export interface Place<N> {
  node: N
  layer: number
  /** Middle of the node, in rows; rows may be halves. */
  row: number
}

export interface Laid<N> {
  places: Place<N>[]
  /** Each edge as the points that it passes, in layers and rows. */
  edges: { from: string; to: string; points: [layer: number, row: number][] }[]
  layers: number
  rows: number
}

/** A node, or a place that an edge over several layers passes. */
interface Slot {
  before: Slot[]
  after: Slot[]
  row: number
  thin: boolean
}

/** How many rows a place takes that only an edge passes. */
const thinRow = 0.35

/** Lays a graph out. What is in a cycle, or after a node that is not there, counts as if that edge were not. */
export function layout<N extends Node>(nodes: N[]): Laid<N> {
  const byName = new Map(nodes.map((n) => [n.name, n]))
  const before = (n: N) => (n.after ?? []).filter((name) => byName.has(name) && name !== n.name)
  const layerOf = new Map<string, number>()
  const depth = (n: N, open: Set<string>): number => {
    const known = layerOf.get(n.name)
    if (known !== undefined) return known
    if (open.has(n.name)) return -1
    open.add(n.name)
    const layer = Math.max(-1, ...before(n).map((name) => depth(byName.get(name)!, open))) + 1
    open.delete(n.name)
    layerOf.set(n.name, layer)
    return layer
  }
  for (const n of nodes) depth(n, new Set())
  const layers: Slot[][] = []
  const put = (layer: number, thin: boolean): Slot => {
    const slot: Slot = { before: [], after: [], row: 0, thin }
    ;(layers[layer] ??= []).push(slot)
    return slot
  }
  const slotOf = new Map(nodes.map((n) => [n.name, put(layerOf.get(n.name)!, false)]))
  const edges: { from: string; to: string; slots: Slot[]; at: number }[] = []
  for (const n of nodes) {
    for (const from of before(n)) {
      const [first, last] = [layerOf.get(from)!, layerOf.get(n.name)!]
      if (first >= last) continue
      const slots = [slotOf.get(from)!]
      for (let layer = first + 1; layer < last; layer++) slots.push(put(layer, true))
      slots.push(slotOf.get(n.name)!)
      for (let i = 1; i < slots.length; i++) {
        slots[i - 1]!.after.push(slots[i]!)
        slots[i]!.before.push(slots[i - 1]!)
      }
      edges.push({ from, to: n.name, slots, at: first })
    }
  }
  const rows = arrange(layers)
  return {
    places: nodes.map((node) => ({ node, layer: layerOf.get(node.name)!, row: slotOf.get(node.name)!.row })),
    edges: edges.map((e) => ({ from: e.from, to: e.to, points: e.slots.map((s, i) => [e.at + i, s.row]) })),
    layers: layers.length,
    rows,
  }
}

/** Orders each layer by the middle of what its slots are joined to, forth and back, and stacks them. It returns the height in rows. */
function arrange(layers: Slot[][]): number {
  const heights = layers.map((layer) => layer.reduce((sum, s) => sum + (s.thin ? thinRow : 1), 0))
  const height = Math.max(1, ...heights)
  const stack = (layer: Slot[], i: number) => {
    let top = (height - heights[i]!) / 2
    for (const s of layer) {
      const own = s.thin ? thinRow : 1
      s.row = top + own / 2
      top += own
    }
  }
  layers.forEach(stack)
  for (let round = 0; round < 4; round++) {
    const forth = round % 2 === 0
    const order = layers.map((_, i) => (forth ? i : layers.length - 1 - i))
    for (const i of order) {
      const middle = (s: Slot) => {
        const joined = forth ? s.before : s.after
        return joined.length ? joined.reduce((sum, j) => sum + j.row, 0) / joined.length : s.row
      }
      const at = new Map(layers[i]!.map((s) => [s, middle(s)]))
      layers[i]!.sort((a, b) => at.get(a)! - at.get(b)!)
      stack(layers[i]!, i)
    }
  }
  return height
}
