/** `convert` of an input that is not what `--from` says. */

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { SOURCE_NAMES, type SourceName } from '../../../core/src/formats/registry.ts'
import { UsageError } from '../../src/cli/command.ts'
import { convert } from '../../src/cli/convert.ts'
import { fakeTerminal } from './fake-terminal.ts'

async function run(from: SourceName, ...input: Uint8Array[]) {
  const { terminal, output } = fakeTerminal(input)
  const outcome = await convert
    .run(['--from', from, '--to', 'v2', '--json'], terminal)
    .catch((error: unknown) => error as Error)
  return { outcome, output: output() }
}

const VENDORS = SOURCE_NAMES.filter((name) => name !== 'v2')

/** Formats that read each other's events: what is wrong there cannot be seen. */
const RELATED = new Set<SourceName>(['openai-responses', 'response-notifications', 'codex'])

function areRelated(one: SourceName, other: SourceName): boolean {
  return one === other || (RELATED.has(one) && RELATED.has(other))
}

/** Recordings of which at least one event means something: others have nothing to be recognised by. */
async function readable(vendor: SourceName): Promise<[string, Uint8Array][]> {
  const files = readdirSync(`test/fixtures/${vendor}`).map(
    (file) => [file, readFileSync(`test/fixtures/${vendor}/${file}`)] as [string, Uint8Array],
  )
  const outputs = await Promise.all(files.map(([, bytes]) => run(vendor, bytes)))
  return files.filter((_, at) =>
    /"type":"(item_start|response_done)"/.test(outputs[at]?.output ?? ''),
  )
}

describe.each(VENDORS)('a stream of %s', (vendor) => {
  test.each(SOURCE_NAMES.filter((from) => !areRelated(vendor, from)))(
    'is refused with the right format when read as %s',
    async (from) => {
      const files = await readable(vendor)
      expect(files.length).toBeGreaterThan(10)
      for (const [file, bytes] of files) {
        const { outcome, output } = await run(from, bytes)
        expect(outcome, file).toBeInstanceOf(UsageError)
        const [, name = ''] =
          /^this looks like .*; use --from (\S+)$/.exec((outcome as Error).message) ?? []
        expect(areRelated(vendor, name as SourceName), `${file}: ${outcome}`).toBe(true)
        expect(output).toBe('')
      }
    },
  )

  test('is accepted as what it is', async () => {
    const files = readdirSync(`test/fixtures/${vendor}`)
    const outcomes = await Promise.all(
      files.map(
        async (file) =>
          (await run(vendor, readFileSync(`test/fixtures/${vendor}/${file}`))).outcome,
      ),
    )
    const refused = outcomes.filter((outcome) => outcome instanceof Error)
    expect(refused.filter(({ message }) => !message.includes('cannot be read'))).toEqual([])
  })
})

test.each(['openai-responses', 'anthropic-messages', 'codex', 'gemini', 'openai-chat'] as const)(
  'a plain text of %s is identified exactly',
  async (vendor) => {
    const file = readdirSync(`test/fixtures/${vendor}`).find((name) => /^(text|exec)\./.test(name))
    const bytes = readFileSync(`test/fixtures/${vendor}/${file}`)
    const { outcome } = await run('v2', bytes)
    expect(String(outcome)).toContain(`use --from ${vendor}`)
  },
)

test('turnstream StreamEvents are identified', async () => {
  const text = readFileSync('test/fixtures/anthropic-messages/text.sse')
  const { output } = await run('anthropic-messages', text)
  for (const vendor of VENDORS) {
    const { outcome } = await run(vendor, new TextEncoder().encode(output))
    expect(String(outcome)).toContain('use --from v2')
  }
})

describe.each(SOURCE_NAMES)('as %s', (from) => {
  test.each([1, 2, 3, 4, 5])('random bytes are refused without a guess (seed %i)', async (seed) => {
    const { outcome, output } = await run(from, randomBytes(seed))
    expect(outcome).toBeInstanceOf(UsageError)
    expect(String(outcome)).not.toContain('looks like')
    expect(output).toBe('')
  })

  test('unknown events are refused without a guess', async () => {
    const { outcome } = await run(
      from,
      new TextEncoder().encode('data: {"type":"novelty","method":"novelty"}\n\n'.repeat(9)),
    )
    expect(outcome).toBeInstanceOf(UsageError)
    expect(String(outcome)).not.toContain('looks like')
  })
})

test('an unrecognised input is refused without reading it to the end', async () => {
  const chunk = new TextEncoder().encode('data: {"type":"novelty"}\n\n'.repeat(4000))
  let reads = 0
  async function* endless() {
    for (;;) {
      reads += 1
      yield chunk
    }
  }
  const { terminal } = fakeTerminal([])
  const args = ['--from', 'anthropic-messages', '--to', 'v2']
  await expect(convert.run(args, { ...terminal, input: endless() })).rejects.toThrow('no events of')
  expect(reads).toBeLessThan(10)
})

/** Never begins like JSON, a page or a stream. */
function randomBytes(seed: number): Uint8Array {
  let state = Math.imul(seed, 2654435761) >>> 0
  return Uint8Array.from({ length: 5000 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state >>> 24
  })
}
