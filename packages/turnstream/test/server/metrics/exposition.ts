/** Reads the text format of Prometheus (0.0.4), and refuses what is not that. */
export interface Exposition {
  /** By name and labels, as they are written: `name{a="b"}`. */
  readonly samples: ReadonlyMap<string, number>
  /** The type of each metric. */
  readonly types: ReadonlyMap<string, string>
}

const LABEL = String.raw`[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"`
const SAMPLE = new RegExp(String.raw`^([a-zA-Z_:][\w:]*)(\{${LABEL}(?:,${LABEL})*\})? (\S+)$`)

export function parseExposition(text: string): Exposition {
  if (!text.endsWith('\n')) throw new Error('the last line has no end')
  const samples = new Map<string, number>()
  const types = new Map<string, string>()
  const helps = new Set<string>()
  for (const line of text.slice(0, -1).split('\n')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (kind === 'HELP') addOnce(helps, name)
    else if (kind === 'TYPE') {
      if (types.has(name)) throw new Error(`${name} has two types`)
      types.set(name, rest)
    } else addSample(line, samples, types)
  }
  for (const name of types.keys()) if (!helps.has(name)) throw new Error(`${name} has no help`)
  return { samples, types }
}

function addOnce(names: Set<string>, name: string): void {
  if (names.has(name)) throw new Error(`${name} is there twice`)
  names.add(name)
}

function addSample(line: string, samples: Map<string, number>, types: Map<string, string>): void {
  const [, name = '', labels = '', written = ''] = SAMPLE.exec(line) ?? []
  if (name === '') throw new Error(`no line of the format: ${line}`)
  const base = name.replace(/_(bucket|sum|count)$/, '')
  // A metric follows its own type, and a series is there once.
  const last = [...types.keys()].at(-1)
  if (last !== name && last !== base) throw new Error(`${name} stands below ${last}`)
  const id = `${name}${labels}`
  const value = written === '+Inf' ? Infinity : Number(written)
  if (samples.has(id) || Number.isNaN(value)) throw new Error(`twice, or no number: ${line}`)
  samples.set(id, value)
}
