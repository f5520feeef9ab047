/** The members of the interfaces that an SDK declares, read from its `.d.ts` files. */
import { readFileSync } from 'node:fs'

export interface Shape {
  readonly required: ReadonlySet<string>
  readonly known: ReadonlySet<string>
  /** The value of `type`, if it is one literal. */
  readonly type: string | undefined
}

const MEMBER = /^ {4}(\w+)(\??): (.*)$/

export function readShapes(path: string): Map<string, Shape> {
  const shapes = new Map<string, Shape>()
  const text = readFileSync(path, 'utf8').replaceAll(/\/\*\*[^]*?\*\//g, '')
  for (const [, name = '', body = ''] of text.matchAll(
    /^export interface (\w+)(?: extends \w+)? \{\n([^]*?)^\}/gm,
  )) {
    const members = body.split('\n').flatMap((line) => {
      const match = MEMBER.exec(line)
      return match === null
        ? []
        : [{ name: match[1] ?? '', isOptional: match[2] === '?', type: match[3] }]
    })
    const type = members.find((member) => member.name === 'type')?.type
    shapes.set(name, {
      required: new Set(members.filter(({ isOptional }) => !isOptional).map((each) => each.name)),
      known: new Set(members.map((each) => each.name)),
      type: /^'([\w.]+)';$/.exec(type ?? '')?.[1],
    })
  }
  return shapes
}

/** The names that the SDK does not know, and the required ones that are missing. */
export function differences(value: object, shape: Shape | undefined, also: readonly string[] = []) {
  if (shape === undefined) return ['no such interface']
  const names = Object.keys(value)
  return [
    ...names.filter((name) => !shape.known.has(name) && !also.includes(name)),
    ...[...shape.required].filter((name) => !names.includes(name)).map((name) => `no ${name}`),
  ]
}
