// Steps as the graph that they are. What it shows stands beside it as a table, too.
import { duration, visible } from './format'
import { layout } from './layout'
import { progressOf } from './progress'

export interface GraphStep {
  name: string
  kind: string
  does?: string
  after?: string[]
  if?: string
  /** What became of it; left out where nothing ran. */
  state?: string
  holds?: boolean
  started?: string
  ended?: string
}

const [boxWidth, boxHeight, gapX, gapY] = [172, 46, 42, 30]

/** As much of a text as fits into a box. */
function fitting(text: string, most: number): string {
  const all = [...visible(text)]
  return all.length > most ? all.slice(0, most - 1).join('') + '…' : all.join('')
}

/** What stands below the name of a step. */
function below(s: GraphStep): string {
  if (!s.state) return s.kind
  const answer = s.state === 'done' && s.holds !== undefined ? (s.holds ? 'yes' : 'no') : progressOf(s.state).label
  const took = s.started && s.ended ? Date.parse(s.ended) - Date.parse(s.started) : undefined
  return [s.kind, answer, took !== undefined && took >= 1000 ? duration(took) : ''].filter(Boolean).join(' · ')
}

/** The graph of some steps, from left to right. select is called with the name of a step that was clicked. */
export function Graph({ steps, label, select }: { steps: GraphStep[]; label: string; select?: (name: string) => void }) {
  if (steps.length === 0) return null
  const laid = layout(steps)
  const x = (layer: number) => 8 + layer * (boxWidth + gapX)
  const y = (row: number) => 4 + row * (boxHeight + gapY) + 6
  const width = x(laid.layers) - gapX + 8
  const height = laid.rows * (boxHeight + gapY) + 12
  const line = (points: [number, number][]) => {
    const [first, ...rest] = points
    let d = `M${x(first![0]) + boxWidth} ${y(first![1])}`
    rest.forEach(([layer, row], i) => {
      const [x1, y1] = [x(layer - 1) + boxWidth, y(points[i]![1])]
      const [x2, y2] = [x(layer), y(row)]
      d += `C${x1 + gapX / 2} ${y1} ${x2 - gapX / 2} ${y2} ${x2} ${y2}`
      if (i < rest.length - 1) d += `H${x2 + boxWidth}`
    })
    return d
  }
  const kept = new Map(steps.map((s) => [s.name, s]))
  return (
    <div class="scroll graph" tabIndex={0} role="region" aria-label={label}>
      <svg width={width} height={height} role="img" aria-label={`${label}: ${steps.map((s) => `${visible(s.name)}${s.after?.length ? ` after ${s.after.map(visible).join(' and ')}` : ''}, ${below(s)}`).join('; ')}.`}>
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto">
            <path d="M0 0l8 4-8 4z" class="edge-tip" />
          </marker>
        </defs>
        {laid.edges.map((e) => (
          <path class={kept.get(e.to)!.state === 'skipped' || kept.get(e.from)!.state === 'skipped' ? 'edge off' : 'edge'} d={line(e.points)} marker-end="url(#tip)" />
        ))}
        {laid.places.map(({ node, layer, row }) => (
          <Box step={node} x={x(layer)} y={y(row) - boxHeight / 2} select={select} />
        ))}
      </svg>
    </div>
  )
}

function Box({ step, x, y, select }: { step: GraphStep; x: number; y: number; select?: (name: string) => void }) {
  const look = step.state ? progressOf(step.state) : undefined
  const titles = [step.name, step.does, step.if && `if ${step.if}`].filter(Boolean).join('\n')
  return (
    <g class={`node ${look?.class ?? ''} ${step.state === 'skipped' ? 'off' : ''} ${select ? 'can' : ''}`} transform={`translate(${x} ${y})`} onClick={select && (() => select(step.name))}>
      <title>{visible(titles)}</title>
      {step.if && (
        <text class="if" x="2" y="-5">
          {fitting(`if ${step.if}`, 26)}
        </text>
      )}
      <rect class={step.kind === 'condition' ? 'condition' : ''} width={boxWidth} height={boxHeight} rx={step.kind === 'condition' ? 22 : 6} />
      {look && (
        <g class="progress" transform="translate(12 15)">
          <path d={look.shape} />
        </g>
      )}
      <text class="name" x={look ? 36 : 14} y="20">
        {fitting(step.name, look ? 17 : 20)}
      </text>
      <text class="kind" x={look ? 36 : 14} y="36">
        {fitting(below(step), look ? 20 : 25)}
      </text>
    </g>
  )
}
