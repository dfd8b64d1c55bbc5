// The states of devices. Each is a shape, a letter and a colour, so that none is told by its colour alone.

export interface StateLook {
  name: string
  label: string
  letter: string
  /** What it means, in a sentence. */
  means: string
  /** Path of the shape in a box of 16 by 16. */
  shape: string
}

const disc = 'M8 1a7 7 0 1 1 0 14a7 7 0 1 1 0-14z'

export const states: StateLook[] = [
  { name: 'offline', label: 'Offline', letter: 'X', means: 'Its deadline passed while its source was listening, or it ended its session.', shape: 'M1.5 1.5h13v13h-13z' },
  { name: 'suspect', label: 'Suspect', letter: '?', means: 'It is silent, and is being asked for a sign of life.', shape: 'M8 .5l7.5 14.5H.5z' },
  { name: 'late', label: 'Late', letter: 'L', means: 'It is silent for longer than expected, and not yet offline.', shape: 'M8 15.5L.5 1h15z' },
  { name: 'unknown', label: 'Unknown', letter: 'U', means: 'Its source hears nothing, so that nothing can be said.', shape: 'M8 .5l7.5 7.5L8 15.5.5 8z' },
  { name: 'pending', label: 'Pending', letter: 'P', means: 'Its new state is decided, and not stored yet.', shape: 'M5 1h6l4 4v6l-4 4H5l-4-4V5z' },
  { name: 'online', label: 'Online', letter: 'O', means: 'It was heard within its deadline.', shape: disc },
  { name: 'sleeping', label: 'Sleeping', letter: 'Z', means: 'It announced its silence.', shape: 'M1 5a4 4 0 0 1 4-4h6a4 4 0 0 1 4 4v6a4 4 0 0 1-4 4H5a4 4 0 0 1-4-4z' },
  { name: 'never_seen', label: 'Never seen', letter: 'N', means: 'It is configured, and was never heard.', shape: 'M8 1a7 7 0 1 1 0 14a7 7 0 1 1 0-14z M8 2.6a5.4 5.4 0 1 0 0 10.8a5.4 5.4 0 1 0 0-10.8z' },
]

const byName = new Map(states.map((s) => [s.name, s]))

export function lookOf(name: string): StateLook {
  return byName.get(name) ?? { name, label: name, letter: '·', means: '', shape: disc }
}

/** The badge of a state. Beside its label it says nothing to a screen reader. */
export function Badge({ state, title }: { state: string; title?: string }) {
  const s = lookOf(state)
  return (
    <svg class={`badge s-${state}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      {title && <title>{title}</title>}
      <path d={s.shape} />
      <text x="8" y={state === 'suspect' ? 13 : state === 'late' ? 9 : 11.4} text-anchor="middle">{s.letter}</text>
    </svg>
  )
}

/** How many devices are in each state, as a bar. Its numbers stand beside it as text, or are its label. */
export function StateBar({ of }: { of: Record<string, number> }) {
  const some = states.filter((s) => (of[s.name] ?? 0) > 0)
  return (
    <div class="bar" role="img" aria-label={some.map((s) => `${s.label} ${of[s.name]}`).join(', ') || 'no devices'}>
      {some.map((s) => (
        <i class={`s-${s.name}`} style={{ flexGrow: of[s.name] }} />
      ))}
    </div>
  )
}

export function State({ state, reason }: { state: string; reason?: string }) {
  return (
    <span class="state" title={lookOf(state).means}>
      <Badge state={state} /> {lookOf(state).label}
      {reason && <span class="dim"> · {reason}</span>}
    </span>
  )
}
