// What became of runs and of their steps: a shape and a word each. The colour only repeats them.

interface Look {
  label: string
  class: string
  /** Path of the shape in a box of 16 by 16. */
  shape: string
}

const looks: Record<string, Look> = {
  done: { label: 'done', class: 's-online', shape: 'M2 8.5l4 4.5 8-10' },
  failed: { label: 'failed', class: 's-offline', shape: 'M3 3l10 10M13 3L3 13' },
  lost: { label: 'lost', class: 's-offline', shape: 'M3 3l10 10M13 3L3 13' },
  running: { label: 'running', class: 's-sleeping', shape: 'M4 2.5v11l9-5.5z' },
  claimed: { label: 'about to start', class: 's-sleeping', shape: 'M4 2.5v11l9-5.5z' },
  waiting: { label: 'waiting', class: 's-late', shape: 'M4 2h8M4 14h8M5 2c0 5 6 7 6 12M11 2c0 5-6 7-6 12' },
  idle: { label: 'waiting', class: 's-late', shape: 'M4 2h8M4 14h8M5 2c0 5 6 7 6 12M11 2c0 5-6 7-6 12' },
  recovered: { label: 'recovered', class: 's-online', shape: 'M13 4v4H9M13 8a5.3 5.3 0 1 0-1 4' },
  skipped: { label: 'skipped', class: 's-never_seen', shape: 'M2 8h2.5M7 8h2.5M12 8h2.5' },
  canceled: { label: 'canceled', class: 's-never_seen', shape: 'M3.5 3.5h9v9h-9z' },
  pending: { label: 'pending', class: 's-never_seen', shape: 'M8 3a5 5 0 1 0 .01 0z' },
  ok: { label: 'ok', class: 's-online', shape: 'M2 8.5l4 4.5 8-10' },
  warn: { label: 'warning', class: 's-late', shape: 'M8 2l6.5 12h-13zM8 6.5v3.5M8 12v.6' },
  fail: { label: 'failure', class: 's-offline', shape: 'M3 3l10 10M13 3L3 13' },
  mistake: { label: 'mistake', class: 's-offline', shape: 'M8 2l6.5 12h-13zM8 6.5v3.5M8 12v.6' },
}

export function progressOf(name: string): Look {
  return looks[name] ?? { label: name, class: 's-never_seen', shape: 'M8 6a2 2 0 1 0 .01 0z' }
}

/** The state of a run, a step or a check. */
export function Progress({ state }: { state: string }) {
  const look = progressOf(state)
  return (
    <span class="state">
      <svg class={`progress ${look.class}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <path d={look.shape} />
      </svg>{' '}
      {look.label}
    </span>
  )
}
