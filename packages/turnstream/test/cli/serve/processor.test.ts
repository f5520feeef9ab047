/** What the settings of the processor change for the readers of `serve`. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ROUTES } from '../../../../core/src/protocol/names.ts'
import { CONFIG_FILE } from '../../../src/cli/serve/configuration.ts'
import { parseServeOptions, serve } from '../../../src/cli/serve/serve.ts'
import { resolveProcessor } from '../../../src/turns/processor-settings.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { fakeVendor } from '../fake-vendor.ts'
import { untilTrue } from '../support.ts'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-processor-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

interface Sources {
  readonly args?: string[]
  readonly env?: Record<string, string>
  readonly file?: unknown
}

/** Starts a server, and returns the statuses of a type of snapshot in the stream of a turn. */
async function statusesOf(type: string, model: string, { args = [], env = {}, file }: Sources) {
  const cwd = folder()
  if (file !== undefined) writeFileSync(join(cwd, CONFIG_FILE), JSON.stringify(file))
  const { terminal, output, signal } = fakeTerminal([], { env, cwd })
  const running = serve.run(['--port', '0', '--store', 'memory', ...args], terminal)
  onTestFinished(async () => {
    signal('SIGTERM')
    await running
  })
  await untilTrue(() => output() !== '')
  const url = /http:\/\/[^\s"]+/.exec(output())?.[0] ?? ''
  const submitted = await fetch(`${url}${ROUTES.submit}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ turnId: 't', prompt: 'Hi', model }),
  })
  expect(submitted.status).toBe(202)
  const stream = await fetch(`${url}${ROUTES.turnOutputStream.replace(':turnId', 't')}`)
  const frames = (await stream.text()).matchAll(/^data: (\{.*)$/gm)
  return [...frames].flatMap(([, data = '']) => {
    const output = JSON.parse(data) as Record<string, string>
    return output['type'] === type && output['origin'] !== 'user' ? [output['status']] : []
  })
}

const HOUR = '1h'
const PATIENT = { batchTimeout: HOUR, maxLatency: HOUR }
const SPEED = ['--scripted-speed', '5']

describe('snapshots are emitted by the gradient', { timeout: 30_000 }, () => {
  const rows: [where: string, Sources, isSteady: boolean][] = [
    ['of the options', { args: ['--processor-batch-gradient', '5'] }, true],
    ['of the environment', { env: { TURNSTREAM_PROCESSOR_BATCH_GRADIENT: '5' } }, true],
    ['of the file', { file: { processor: { ...PATIENT, batchGradient: [5] } } }, true],
    [
      'of the file, if it has steps',
      { file: { processor: { ...PATIENT, batchGradient: [] } } },
      false,
    ],
  ]
  test.each(rows)('%s', async (_where, { args = [], ...sources }, isSteady) => {
    const given = { file: { processor: PATIENT }, ...sources, args: [...SPEED, ...args] }
    const statuses = await statusesOf('message', 'scripted/answer', given)
    if (!isSteady) expect(statuses).toEqual(['complete'])
    // By default, there are fewer.
    else expect(statuses.length).toBeGreaterThan(10)
    expect(statuses.at(-1)).toBe('complete')
  })
})

test.each([
  ['complete', '17', 'create'],
  ['failed', '16', 'error'],
])('arguments of 17 characters are %s with a limit of %s', async (_what, limit, status) => {
  const call = { index: 0, id: 'c1', function: { name: 'weather', arguments: '{"city":"Berlin"}' } }
  const chunks = [
    { id: 'x', choices: [{ index: 0, delta: { tool_calls: [call] } }] },
    { id: 'x', choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
  ]
  const vendor = await fakeVendor(
    200,
    [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
      .map((data) => `data: ${data}\n\n`)
      .join(''),
  )
  const env = { OPENAI_COMPATIBLE_BASE_URL: vendor.url, OPENAI_COMPATIBLE_MODEL: 'm' }
  const args = ['--processor-max-argument-chars', limit]
  expect(await statusesOf('tool_call', 'm', { args, env })).toEqual([status])
})

test('the defaults are those of the library, and every setting reaches the gateway', () => {
  const parse = (args: string[]) =>
    parseServeOptions(args, { cwd: folder(), env: {} }).settings.processor
  const { emission } = resolveProcessor(parse([]))
  expect(emission).toEqual(resolveProcessor().emission)
  expect(parse([])).toMatchObject({
    ...{ retryAttempts: Infinity, retryBaseMs: 20, retryMaxMs: 1000, maxArgumentChars: 1_000_000 },
  })
  const given = ['batch-gradient=7', 'batch-timeout=2s', 'max-latency=4s', 'retry-attempts=5']
  const more = ['retry-base=6ms', 'retry-max=8s', 'max-argument-chars=9']
  expect(parse([...given, ...more].map((each) => `--processor-${each}`))).toEqual({
    batchGradient: [7],
    ...{ batchTimeoutMs: 2000, maxLatencyMs: 4000, retryAttempts: 5 },
    ...{ retryBaseMs: 6, retryMaxMs: 8000, maxArgumentChars: 9 },
  })
})
