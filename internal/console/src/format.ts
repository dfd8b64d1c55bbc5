// Durations, instants and numbers as text.

/** A duration in milliseconds, in the one or two greatest units: 350 ms, 12 s, 4 m 10 s, 3 h 5 m, 2 d 4 h. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return 'never'
  if (ms < 0) return '−' + duration(-ms)
  if (ms < 1) return ms === 0 ? '0 s' : '< 1 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  let s = Math.round(ms / 1000)
  if (ms < 10_000 && ms % 1000 >= 50) return `${(ms / 1000).toFixed(1)} s`
  const units: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']]
  const at = units.findIndex(([n]) => s >= n)
  const parts: string[] = []
  for (const [n, unit] of units.slice(at, at + 2)) {
    const q = Math.floor(s / n)
    s -= q * n
    if (q > 0) parts.push(`${q} ${unit}`)
  }
  return parts.join(' ')
}

const day = new Intl.DateTimeFormat('sv', { dateStyle: 'short' })
const time = new Intl.DateTimeFormat('sv', { timeStyle: 'medium' })

/** Reads 90s, 10m, 1h30m or a number of seconds; an empty text is undefined. */
export function milliseconds(text: string): number | undefined {
  const plain = text.trim().replace(/\s+/g, '')
  if (plain === '') return undefined
  if (/^\d+(\.\d+)?$/.test(plain)) return Number(plain) * 1000
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
  let sum = 0
  let rest = plain
  for (let m; (m = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)/.exec(rest)); rest = rest.slice(m[0].length)) sum += Number(m[1]) * units[m[2]!]!
  if (rest !== '') throw new Error(`“${text}” is not a duration; write 90s, 10m or 1h30m`)
  return sum
}

/** A duration as it is typed, exactly: milliseconds reads the same number from it. Nothing for none. */
export function written(ms: number | null | undefined): string {
  let text = ''
  let rest = ms ?? 0
  for (const [unit, name] of [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'm'], [1000, 's'], [1, 'ms']] as const) {
    const n = unit === 1 ? rest : Math.floor(rest / unit)
    rest -= n * unit
    if (n > 0) text += n + name
  }
  return text
}

/** An instant: the time of today, else with its date; ISO 8601 order, in the zone of the browser. */
export function instant(at: string | number | undefined, now: number): string {
  if (!at) return '—'
  const d = new Date(at)
  return day.format(d) === day.format(now) ? time.format(d) : `${day.format(d)} ${time.format(d)}`
}

const grouped = new Intl.NumberFormat('en')

/** A count with its thousands parted: 1,000,000. */
export function count(n: number | undefined): string {
  return n === undefined ? '—' : grouped.format(n)
}

export function bytes(n: number): string {
  const units = ['B', 'KB', 'MB', 'GB']
  let i = 0
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000
    i++
  }
  return `${n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`
}

/** A share as a percentage. It never rounds up to 100: 99.999. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return '—'
  if (share >= 1) return '100 %'
  const p = share * 100
  return `${p >= 99 ? (Math.floor(p * 1000) / 1000).toFixed(3) : p.toFixed(p < 10 ? 2 : 1)} %`
}

/** A text from a device, with what cannot be seen, or turns the direction of writing, shown by its number. */
export function visible(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g, (c) => `⟨${c.charCodeAt(0).toString(16).padStart(4, '0')}⟩`)
}

export function plural(n: number, one: string, many = one + 's'): string {
  return `${count(n)} ${n === 1 ? one : many}`
}
