/** A bug report: a turn is recorded by one gateway, exported, and played by another. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { cassetteEvents } from '../../../../core/src/index.ts'
import { cassetteOf, encode, recordedCall } from '../../../../core/test/cassettes/samples.ts'
import { diff } from '../../../src/cli/cassettes/diff.ts'
import { exportCassette } from '../../../src/cli/cassettes/export.ts'
import { serve } from '../../../src/cli/serve/serve.ts'
import { turnRecordingName } from '../../../src/cli/serve/turn-recorder.ts'
import { sse, startVendor } from '../../providers/vendor-server.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { refusingPort, untilTrue } from '../support.ts'
import { readCassetteAt, recordingsIn, responseText, testFolder } from './support.ts'

const PATIENCE = { timeout: 30_000 }
const KEY = 'sk-of-the-vendor-0123456789'

interface Setup {
  readonly cwd: string
  readonly env?: Record<string, string>
}

async function start(args: string[], { cwd, env = {} }: Setup) {
  const terminal = fakeTerminal([], { clock: systemClock, cwd, env })
  const { output, errors, signal } = terminal
  const running = serve.run(['--port', '0', '--scripted-speed', '0', ...args], terminal.terminal)
  running.catch(() => {})
  await untilTrue(() => output() !== '')
  let isOver = false
  const end = async () => {
    if (!isOver) signal('SIGTERM')
    isOver = true
    return running
  }
  onTestFinished(async () => {
    await end()
  })
  return { url: /http:\/\/[^\s"]+/.exec(output())?.[0] ?? '', end, errors }
}

/** Runs a turn to its end and returns its last snapshots. */
async function runTurn(url: string, body: object) {
  const headers = { 'content-type': 'application/json' }
  const submitted = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  expect(submitted.status).toBe(202)
  const { turnId } = (await submitted.json()) as { turnId: string }
  await (await fetch(`${url}/xapi/turns/${turnId}/stream`)).text()
  const turn = await fetch(`${url}/xapi/turns/${turnId}`)
  return ((await turn.json()) as { outputs: { type: string; content?: string }[] }).outputs
}

async function runExport(cwd: string, args: string[], env = {}) {
  const { terminal, output, errors } = fakeTerminal([], { clock: systemClock, cwd, env })
  const code = await exportCassette.run(args, terminal)
  return { code, output: output(), errors: errors() }
}

/** A vendor that plays a fixture. */
async function vendor(name: string) {
  const body = readFileSync(`test/fixtures/${name}`)
  const server = await startVendor((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body)
  })
  onTestFinished(() => server.close())
  return server
}

describe('a turn', PATIENCE, () => {
  test('is recorded, exported with the bytes of the vendor, and played again', async () => {
    const cwd = testFolder()
    const { url: baseUrl } = await vendor('anthropic-messages/text.sse')
    const config = { record: 'tapes', providers: { anthropic: { baseUrl } } }
    writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify(config))
    const env = { ANTHROPIC_API_KEY: KEY }
    const first = await start(['--store', 'data'], { cwd, env })
    const outputs = await runTurn(first.url, { turnId: 'bug', prompt: 'Hello' })
    expect(first.errors()).toContain('recording prompts and answers')
    await first.end()
    expect(recordingsIn(join(cwd, 'tapes'))).toHaveLength(1)

    const exported = await runExport(cwd, ['bug', '--store', 'data'])
    expect(exported.code).toBe(0)
    expect(exported.output).not.toContain(KEY)
    const file = join(cwd, 'bug.cassette.jsonl')
    writeFileSync(file, exported.output)
    const cassette = readCassetteAt(file)
    expect(responseText(cassette)).toBe(
      readFileSync('test/fixtures/anthropic-messages/text.sse', 'utf8'),
    )
    expect(cassette.header).toMatchObject({ turnId: 'bug' })
    expect(cassette.calls[0]?.request?.headers).toMatchObject({ 'x-api-key': '[redacted]' })
    const finals = cassette.outputs.map(({ output }) => output).filter((each) => 'content' in each)
    expect(finals.at(-1)).toMatchObject({ content: outputs.at(-2)?.content })

    const second = await start(['--store', 'data2', '--cassettes', 'bug.cassette.jsonl'], { cwd })
    const again = await runTurn(second.url, {
      turnId: 'again',
      model: 'scripted/bug',
      prompt: 'Hello',
    })
    const texts = (all: typeof outputs) => all.map(({ type, content }) => [type, content])
    expect(texts(again)).toEqual(texts(outputs))

    // The same, from the running gateway, without recorded bytes.
    const served = await runExport(cwd, ['again', '--url', second.url])
    expect(served.code).toBe(0)
    const other = join(cwd, 'again.cassette.jsonl')
    writeFileSync(other, served.output)
    expect(readCassetteAt(other).calls).toEqual([])
    const compared = fakeTerminal()
    await diff.run([file, other, '--layers', 'outputs'], compared.terminal)
    // They differ only in who answered.
    expect(compared.output()).toMatch(/\(turn_started\), field (modelId|providerId)/)
    await second.end()
  })

  test('with a server tool is played round by round, and its tool runs again', async () => {
    const cwd = testFolder()
    const call = {
      index: 0,
      id: 'c',
      type: 'function',
      function: { name: 'work', arguments: '{}' },
    }
    const chunk = (delta: object, finish_reason: string | null = null) =>
      JSON.stringify({ model: 'm', choices: [{ index: 0, delta, finish_reason }] })
    const rounds = [
      sse(chunk({ tool_calls: [call] }), chunk({}, 'tool_calls'), '[DONE]'),
      sse(chunk({ content: 'It is done.' }), chunk({}, 'stop'), '[DONE]'),
    ]
    const server = await startVendor((response, request, count) =>
      rounds[count - 1]?.(response, request, count),
    )
    onTestFinished(() => server.close())
    const tool = `import { appendFileSync } from 'node:fs'
export default [{
  name: 'work',
  parameters: { type: 'object' },
  execute: () => { appendFileSync(new URL('runs', import.meta.url), 'run '); return 'worked' },
}]`
    writeFileSync(join(cwd, 'tools.mjs'), tool)
    const config = { store: 'memory', tools: [{ module: './tools.mjs' }] }
    writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify(config))
    const env = { OPENAI_COMPATIBLE_BASE_URL: server.url, OPENAI_COMPATIBLE_MODEL: 'm' }
    const first = await start(['--record', 'tapes'], { cwd, env })
    const outputs = await runTurn(first.url, { prompt: 'Work' })
    await first.end()
    const [name = ''] = recordingsIn(join(cwd, 'tapes'))
    expect(readCassetteAt(join(cwd, 'tapes', name)).calls).toHaveLength(2)

    const model = name.replace('.cassette.jsonl', '')
    const second = await start(['--cassettes', join('tapes', name)], { cwd })
    const again = await runTurn(second.url, { model, prompt: 'Work' })
    const shown = (all: typeof outputs) => all.map(({ type, content }) => [type, content])
    expect(shown(again)).toEqual(shown(outputs))
    expect(shown(again)).toContainEqual(['message', 'It is done.'])
    expect(readFileSync(join(cwd, 'runs'), 'utf8')).toBe('run run ')
    expect(server.bodies).toHaveLength(2)
  })

  test('with only recorded calls is played at the pace of the chunks', async () => {
    const cwd = testFolder()
    const cassette = cassetteOf({ calls: [recordedCall('chat')] })
    writeFileSync(join(cwd, 'demo.jsonl'), encode(cassette))
    const { url } = await start(['--store', 'memory', '--cassettes', 'demo.jsonl'], { cwd })
    const outputs = await runTurn(url, { prompt: 'Hello' })
    const said = cassetteEvents(cassette).flatMap(({ event: { payload } }) =>
      payload.type === 'item_delta' ? [payload.delta_content] : [],
    )
    expect(
      outputs.find(({ type, content }) => type === 'message' && content !== 'Hello'),
    ).toMatchObject({ content: said.join('') })
  })
})

describe('an export', PATIENCE, () => {
  async function stored() {
    const cwd = testFolder()
    const server = await start(['--store', 'data'], { cwd })
    await runTurn(server.url, { turnId: 'bug', model: 'scripted/tools', prompt: 'Hello' })
    await server.end()
    return cwd
  }

  test.each([
    [['none', '--store', 'data'], 1, 'TURN_UNKNOWN'],
    [['bug', '--store', 'data', '--tenant', 'acme'], 1, 'TURN_UNKNOWN'],
  ])('%j fails', async (args, code, reason) => {
    const failed = await runExport(await stored(), [...args, '--json'])
    expect(failed.code).toBe(code)
    expect(failed.output).toContain(reason)
  })

  test('without a gateway fails', async () => {
    const url = `http://127.0.0.1:${await refusingPort()}`
    const failed = await runExport(testFolder(), ['bug', '--url', url, '--json'])
    expect(failed).toMatchObject({ code: 1, output: expect.stringContaining('"error"') })
  })

  test.each([
    [[], 'cassette export takes one turn id'],
    [['bug', '--tenant', 'A'], '--tenant must be'],
    [['bug', '--url', 'http://h', '--store', 's'], '--url cannot be combined'],
  ])('%j is a usage error', async (args, reason) => {
    await expect(runExport(testFolder(), args)).rejects.toThrow(reason)
  })

  test('ignores the recording of an earlier turn with the same id', async () => {
    const cwd = await stored()
    mkdirSync(join(cwd, 'tapes'))
    const name = turnRecordingName('default', 'bug')
    writeFileSync(join(cwd, 'tapes', name), encode(cassetteOf({ calls: [recordedCall('chat')] })))
    const env = { TURNSTREAM_RECORD: 'tapes' }
    const { output } = await runExport(cwd, ['bug', '--store', 'data'], env)
    expect(output).toContain('"event"')
    expect(output).not.toContain('"request"')
  })
})

describe('cassettes of the configuration', () => {
  test.each([
    ['none.jsonl', undefined, /none\.jsonl/],
    ['bad.jsonl', '{}\n', /bad\.jsonl: .*CASSETTE_INVALID/],
    [
      'answer.jsonl',
      encode(cassetteOf({ calls: [recordedCall('chat')] })),
      /already has a model answer/,
    ],
  ])('%s is a usage error', async (name, text, reason) => {
    const cwd = testFolder()
    if (text !== undefined) writeFileSync(join(cwd, name), text)
    const { terminal } = fakeTerminal([], { cwd })
    await expect(serve.run(['--cassettes', name], terminal)).rejects.toThrow(reason)
  })
})
