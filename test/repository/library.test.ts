/** docs/library.md says what the code does: names, defaults, codes. */
import { describe, expect, test } from 'vitest'
import * as client from '../../packages/client/src/index.ts'
import * as react from '../../packages/client/src/react.ts'
import * as share from '../../packages/client/src/share.ts'
import * as testing from '../../packages/conformance/src/index.ts'
import {
  decodeLegacy,
  isLegacyName,
  legacyName,
} from '../../packages/core/src/formats/codex/decode-legacy.ts'
import { MAX_ARGUMENT_CHARS } from '../../packages/core/src/formats/translation.ts'
import { resolveOptions } from '../../packages/core/src/processor/options.ts'
import * as main from '../../packages/turnstream/src/index.ts'
import * as server from '../../packages/turnstream/src/server.ts'
import { exportedTypesOf, literalsOf, read } from './sources.ts'
import { section, tableRows } from './tables.ts'

const page = read('docs/library.md')
const ENTRIES = { main, server, client, share, react, testing }
const EXPORTED = new Set([
  ...Object.values(ENTRIES).flatMap((entry) => Object.keys(entry)),
  ...exportedTypesOf('packages/turnstream/src/index.ts'),
])

describe('exports', () => {
  const named = new Set(page.match(/(?<=`)\w+/g))

  test.each(Object.entries(ENTRIES))('every value of the %s entry point is named', (_, entry) => {
    expect(Object.keys(entry).filter((name) => !named.has(name))).toEqual([])
  })

  test('the types that a processor and a reducer take and return are named', () => {
    const types = [
      ...['StreamEvent', 'StreamEventPayload', 'TraceContext', 'OutputItem', 'MessageOrigin'],
      ...['ErrorObject', 'StreamOutput', 'StreamMessage', 'Content', 'ContentType', 'Status'],
      ...['TurnEvent', 'TurnStatus', 'ProcessorOptions', 'BufferInfo', 'BufferState'],
    ]
    expect(types.filter((name) => !named.has(name))).toEqual([])
  })

  test('every name in the tables is exported', () => {
    const names = tableRows(section(page, 'Exports')).flatMap(([cell = '']) => codesIn(cell))
    expect(names.filter((name) => !EXPORTED.has(name))).toEqual([])
  })

  test('every new name of a class or type is exported, and no older one', () => {
    const rows = tableRows(section(page, 'Older names'))
    const names = (column: number) =>
      rows.flatMap((row) => codesIn(row[column] ?? '')).filter(isType)
    expect(names(1).filter((name) => !EXPORTED.has(name))).toEqual([])
    expect(names(0).filter((name) => EXPORTED.has(name))).toEqual([])
  })
})

describe('StreamProcessor', () => {
  const text = section(page, 'StreamProcessor')
  const { onEmit: _, ...defaults } = resolveOptions({ turnId: 'a', threadId: 'b', onEmit() {} })

  test('has the listed defaults', () => {
    const isPlain = (value: unknown) => typeof value === 'number' || typeof value === 'boolean'
    const plain = Object.entries(defaults).filter(([, value]) => isPlain(value))
    const listed = defaultsIn(text).filter(([name]) => name in Object.fromEntries(plain))
    expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(plain))
    expect(defaults.batchGradient).toBe(main.DEFAULT_BATCH_GRADIENT)
  })

  test('has the listed gradient, whose sums are the listed thresholds', () => {
    const [steps, thresholds] = [...text.matchAll(/^ {4}(\d.*)$/gm)].map(([, line = '']) =>
      line.split(', ').map(Number),
    )
    let total = 0
    expect(steps).toEqual(main.DEFAULT_BATCH_GRADIENT)
    expect(thresholds).toEqual(main.DEFAULT_BATCH_GRADIENT.map((step) => (total += step)))
    expect(text).toContain(`every ${main.DEFAULT_BATCH_GRADIENT.at(-1)} more`)
  })
})

describe('ResponseStream', () => {
  const text = section(page, 'ResponseStream')
  const { maxBufferSize, eventTimeout, enableBackpressure } = Object.fromEntries(
    defaultsIn(text),
  ) as Record<string, number>

  test('refuses an event beyond the listed buffer', () => {
    const stream = new main.ResponseStream<number>()
    for (let count = 0; count < Number(maxBufferSize); count++) stream.addEvent(count)
    expect(() => stream.addEvent(0)).toThrow(main.ResponseStreamError)
    expect(enableBackpressure).toBe(true)
  })

  test('waits for the listed time', async () => {
    const clock = testing.fakeClock()
    const stream = new main.ResponseStream(undefined, { clock })
    let error: unknown
    const read = stream[Symbol.asyncIterator]().next()
    read.catch((reason: unknown) => {
      error = reason
    })
    await clock.advance(Number(eventTimeout) - 1)
    expect(error).toBeUndefined()
    await clock.advance(1)
    expect(error).toMatchObject({ code: 'TIMEOUT' })
  })

  test('fails with the listed codes', () => {
    const isCode = (name: string) => name in main.ERROR_CODES
    const thrown = literalsOf('packages/core/src/async/response-stream.ts').filter(isCode)
    expect(codesIn(text).filter(isCode)).toEqual([...new Set(thrown)].toSorted())
  })
})

test('ToolCallAggregator has the listed cap', () => {
  const text = section(page, 'ToolCallAggregator')
  expect(text).toContain(`Arguments over ${MAX_ARGUMENT_CHARS}\ncharacters (\`maxArgumentChars\`)`)
})

describe('legacy notifications', () => {
  const text = section(page, 'Legacy notifications')
  const rows = tableRows(text).map(([content, names = '']) => ({ content, names: codesIn(names) }))

  test('are all listed', () => {
    const accepted = literalsOf('packages/core/src/formats/codex/decode-legacy.ts').filter(
      isLegacyName,
    )
    const listed = rows.flatMap(({ names }) => names)
    expect(listed.toSorted()).toEqual([...new Set(accepted)].toSorted())
  })

  test.each(rows)('$content: have or have no effect', ({ content, names }) => {
    expect(names.filter((name) => isIgnored(name) !== (content === 'ignored'))).toEqual([])
  })

  test('are also read in camel case', () => {
    const [camelCase = ''] = text.match(/(?<=camel case, such as `)\w+/) ?? []
    expect(camelCase).toMatch(/[A-Z]/)
    expect(isLegacyName(legacyName(camelCase))).toBe(true)
  })
})

/** What stands in backquotes. */
function codesIn(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)
}

function isType(name: string): boolean {
  return /^[A-Z]\w+$/.test(name)
}

/** The rows of a table of options with one name and a JSON value. */
function defaultsIn(text: string): [string, unknown][] {
  return tableRows(text).flatMap(([name = '', value = '']) =>
    /^(?:\d+|true|false)$/.test(value) ? [[name.replaceAll('`', ''), JSON.parse(value)]] : [],
  )
}

/** A name that asks for fields has an effect. */
function isIgnored(name: string): boolean {
  const item = { type: 'AgentMessage', id: 'a', content: [] }
  const info = { total_token_usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } }
  try {
    return decodeLegacy(name, { type: 'function_call', item, info, model: 'm' }) === undefined
  } catch {
    return false
  }
}
