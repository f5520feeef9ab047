/**
 * codex returns what it received before a cut: after each item it gets the rest of the turn, and pays once.
 * @module-tag slow
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { stage, VENDORS, type VendorName } from '../server/openai/stage.ts'
import { installedCodex } from './support.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 240_000 })

let codex = ''

beforeAll(() => {
  codex = installedCodex()
})

const ARGUMENTS = JSON.stringify({ cmd: 'echo from-codex' })

function chunk(delta: object, finish_reason: string | null = null) {
  const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
  return { ...head, choices: [{ index: 0, delta, finish_reason }] }
}

function openaiItem(item: { id: string; type: string; [name: string]: unknown }, index: number) {
  return [
    { type: 'response.output_item.added', output_index: index, item },
    { type: 'response.output_item.done', output_index: index, item },
  ]
}

function block(index: number, content_block: object, ...deltas: object[]) {
  return [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

const SUMMARY = [{ type: 'summary_text', text: 'A command.' }]
const SAID = [{ type: 'output_text', text: 'I will run it.', annotations: [] }]
const RUN = { name: 'exec_command', arguments: ARGUMENTS }
const DONE = [{ type: 'output_text', text: 'It ran.', annotations: [] }]

/** The events of two answers: thinks, talks and calls a tool, then answers. A group of events ends an item. */
const ANSWERS: Record<(typeof VENDORS)[number], readonly (readonly object[][])[]> = {
  'openai-responses': [
    [
      [{ type: 'response.created', response: { id: 'r', model: 'm' } }],
      openaiItem({ id: 'rs_1', type: 'reasoning', summary: SUMMARY, encrypted_content: 'blob' }, 0),
      openaiItem({ id: 'msg_1', type: 'message', role: 'assistant', content: SAID }, 1),
      openaiItem({ id: 'fc_1', type: 'function_call', call_id: 'call_1', ...RUN }, 2),
      [{ type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } }],
    ],
    [
      [{ type: 'response.created', response: { id: 's', model: 'm' } }],
      openaiItem({ id: 'msg_2', type: 'message', role: 'assistant', content: DONE }, 0),
      [{ type: 'response.completed', response: { id: 's', status: 'completed', output: [] } }],
    ],
  ],
  'anthropic-messages': [
    [
      [{ type: 'message_start', message: { id: 'm', model: 'm' } }],
      block(
        0,
        { type: 'thinking', thinking: '', signature: '' },
        { type: 'thinking_delta', thinking: 'A command.' },
        { type: 'signature_delta', signature: 'blob' },
      ),
      block(1, { type: 'text', text: '' }, { type: 'text_delta', text: 'I will run it.' }),
      block(
        2,
        { type: 'tool_use', id: 'call_1', name: 'exec_command', input: {} },
        { type: 'input_json_delta', partial_json: ARGUMENTS },
      ),
      [
        { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } },
        { type: 'message_stop' },
      ],
    ],
    [
      [{ type: 'message_start', message: { id: 'n', model: 'm' } }],
      block(0, { type: 'text', text: '' }, { type: 'text_delta', text: 'It ran.' }),
      [{ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }],
    ],
  ],
  'openai-chat': [
    [
      [chunk({ reasoning_content: 'A command.' })],
      [chunk({ content: 'I will run it.' })],
      [chunk({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: RUN }] })],
      [chunk({}, 'tool_calls')],
    ],
    [[chunk({ content: 'It ran.' })], [chunk({}, 'stop')]],
  ],
}

/** A network that cuts connections, one after the other: each when it has carried the end of so many items. */
async function cuttingNetwork(url: string, ...cuts: number[]) {
  const left = [...cuts]
  const requests: string[] = []
  const network = createServer((client) => {
    const gateway = connect(Number(new URL(url).port), '127.0.0.1')
    let sent = ''
    let received = ''
    client.on('data', (data: Buffer) => {
      sent += data.toString('latin1')
      gateway.write(data)
      const body = bodyOf(sent)
      if (body === undefined) return
      requests.push(body)
      sent = ''
    })
    gateway.on('data', (data: Buffer) => {
      if (client.destroyed) return
      const before = received.length
      received += data.toString('latin1')
      const [items] = left
      const end = items === undefined ? -1 : endOfItem(received, items)
      if (end < 0) return void client.write(data)
      left.shift()
      client.write(data.subarray(0, end - before))
      client.destroySoon()
    })
    client.on('error', () => {}).on('close', () => gateway.destroy())
    gateway.on('error', () => {}).on('close', () => client.destroySoon())
  })
  await once(network.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void network.close())
  const { port } = network.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, requests, cutsLeft: left }
}

/** The body of a request that has arrived whole. */
function bodyOf(text: string): string | undefined {
  const start = text.indexOf('\r\n\r\n') + 4
  const length = Number(/^content-length: (\d+)\r$/im.exec(text)?.[1] ?? 0)
  if (start < 4 || length === 0 || text.length < start + length) return undefined
  return Buffer.from(text.slice(start, start + length), 'latin1').toString()
}

function endOfItem(text: string, count: number): number {
  let at = -1
  for (let item = 0; item < count; item++) {
    at = text.indexOf('event: response.output_item.done', at + 1)
    if (at < 0) return -1
  }
  const end = text.indexOf('\n\n', at)
  return end < 0 ? -1 : end + 2
}

/** Runs `codex exec` in a folder of its own. */
async function runCodex(url: string, summary: string) {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-cut-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const provider = `name = "turnstream"\nbase_url = "${url}/v1"\nwire_api = "responses"`
  const names = `model = "vendor/m"\nmodel_provider = "turnstream"\nmodel_reasoning_summary = "${summary}"`
  const config = `${names}\n[model_providers.turnstream]\n${provider}\n`
  writeFileSync(join(folder, 'config.toml'), config)
  const flags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']
  const env = { PATH: process.env['PATH'], HOME: folder, CODEX_HOME: folder }
  const child = spawn(codex, ['exec', ...flags, 'Run it'], { cwd: folder, env, stdio: 'pipe' })
  child.stdin.end()
  const [[code], printed, errors] = await Promise.all([
    once(child, 'close') as Promise<[number]>,
    child.stdout.setEncoding('utf8').toArray(),
    child.stderr.setEncoding('utf8').toArray(),
  ])
  return { code, printed: printed.join(''), errors: errors.join('') }
}

interface Item {
  readonly type: string
  readonly role?: string
}

/** The types of what the model and its tools said. */
function answersIn(body: string): string[] {
  const { input } = JSON.parse(body) as { input: Item[] }
  return input
    .filter(({ role }) => role === undefined || role === 'assistant')
    .map(({ type }) => type)
}

describe.each(VENDORS)('with %s', (vendor: VendorName) => {
  test.each([
    ['the reasoning', 'auto', [1]],
    ['reasoning without a summary', 'none', [1]],
    ['the text', 'auto', [2]],
    ['the call', 'auto', [3]],
    ['the reasoning, and again after the text', 'auto', [1, 1]],
  ])('a cut after %s costs nothing and doubles nothing', async (_item, summary, cuts) => {
    const answers = ANSWERS[vendor as keyof typeof ANSWERS]
    const { server, vendor: upstream } = await stage(vendor, (response, _request, number) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const event of answers[Math.min(number, 2) - 1]?.flat() ?? []) {
        const name = 'type' in event ? `event: ${String(event.type)}\n` : ''
        response.write(`${name}data: ${JSON.stringify(event)}\n\n`)
      }
      response.end()
    })
    const network = await cuttingNetwork(server.url, ...cuts)
    const { code, printed, errors } = await runCodex(network.url, summary)
    expect(code, errors).toBe(0)
    expect(network.cutsLeft).toEqual([])
    expect(printed).toContain('It ran.')
    expect(upstream.bodies).toHaveLength(2)
    expect(answersIn(network.requests.at(-1) ?? '')).toEqual([
      'reasoning',
      'message',
      'function_call',
      'function_call_output',
    ])
  })
})
