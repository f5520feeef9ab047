/** V7: tool arguments while they stream, for the readers that ask for them. */

import { describe, expect, test } from 'vitest'
import type { StreamEventPayload, StreamOutput } from '../../../../core/src/index.ts'
import type { HeldCall } from '../held-provider.ts'
import { call, heldTurn, readUntil, sealed, startServer, type TestServer } from '../support.ts'

const ARGS = JSON.stringify({ text: 'x'.repeat(100) })
const HALF = ARGS.slice(0, 60)

function add({ stream }: HeldCall, ...payloads: readonly StreamEventPayload[]): void {
  for (const payload of payloads) stream.addEvent(payload)
}

function opened(name = 'write'): StreamEventPayload {
  return { type: 'item_start', item_id: 'c', item_type: 'function_call', name, call_id: 'c1' }
}

function delta(delta_content: string): StreamEventPayload {
  return { type: 'item_delta', item_id: 'c', delta_content }
}

const DONE: StreamEventPayload = {
  type: 'item_done',
  item_id: 'c',
  final_item: { type: 'function_call', id: 'c', name: 'write', arguments: ARGS, call_id: 'c1' },
}

interface SentFrame {
  readonly id: string | undefined
  readonly output: StreamOutput & { readonly toolArgumentsText?: string }
}

/** The frames about the call. */
function framesOf(stream: string): SentFrame[] {
  return stream.split('\n\n').flatMap((text) => {
    const [, id] = /^id: (.*)$/m.exec(text) ?? []
    const [, data] = /^data: (.*)$/m.exec(text) ?? []
    if (data === undefined) return []
    const output = JSON.parse(data) as StreamOutput
    return output.type === 'tool_call' ? [{ id, output }] : []
  })
}

function summary({ id, output }: SentFrame): string {
  const { status } = output as { status: string }
  const text = output.toolArgumentsText
  // Records in a block have no id either.
  return text === undefined ? status : `${status} ${text.length}${id === undefined ? '' : ' id'}`
}

/** Resolves when the log of events has the call's deltas up to this length. */
async function stored({ log }: TestServer, turnId: string, length: number): Promise<void> {
  const leave = new AbortController()
  let chars = 0
  for await (const record of log.tail(turnId, 'events', '0-0', leave.signal)) {
    if ('event' in record && record.event.payload.type === 'item_delta') {
      chars += record.event.payload.delta_content.length
    }
    if (chars >= length) break
  }
  leave.abort()
}

async function finish(server: TestServer, turnId: string, held: HeldCall): Promise<void> {
  add(held, DONE)
  held.finish()
  await sealed(server.log, turnId)
}

describe.each(['/xapi/turns/t/stream', '/xapi/threads/h/stream'])('V7 %s', (path) => {
  const IDS = { turnId: 't', threadId: 'h' }

  test('sends a call at its name, as it grows, and its record as an update', async () => {
    const server = await startServer()
    const { call: held } = await heldTurn(server, IDS)
    const stream = `${server.url}${path}?arguments=stream`
    const reading = readUntil(stream, 'turn_complete')
    const isSeen = readUntil(stream, `"toolArgumentsText":"${JSON.stringify(HALF).slice(1, -1)}"`)
    add(held, opened(), delta(HALF))
    await isSeen
    add(held, delta(ARGS.slice(60)))
    await finish(server, 't', held)
    const frames = framesOf((await reading).json as string)
    expect(frames[0]?.output).toMatchObject({
      status: 'create',
      itemId: 't:2',
      toolName: 'write',
      callId: 'c1',
      toolArguments: {},
      content: '',
    })
    expect(frames.at(-1)?.output).toMatchObject({ toolArguments: { text: 'x'.repeat(100) } })
    expect(frames.at(-1)?.output).not.toHaveProperty('toolArgumentsText')
    const lines = frames.map(summary)
    expect(lines.at(-1)).toBe('update')
    expect(lines.slice(0, -1).every((line) => /^(create|update) \d+$/.test(line))).toBe(true)
    expect(lines.slice(0, -1).filter((line) => line.startsWith('create'))).toHaveLength(1)
    expect(lines.some((line) => line.endsWith(' 60'))).toBe(true)
  })

  test('sends each open call once on connect, with its text so far', async () => {
    const server = await startServer()
    const { call: held } = await heldTurn(server, IDS)
    add(held, opened(), delta('{"text"'))
    await stored(server, 't', 7)
    const { json } = await readUntil(`${server.url}${path}?arguments=stream`, 'toolArgumentsText')
    expect(framesOf(json as string).map(summary)).toEqual(['create 7'])
    await finish(server, 't', held)
  })

  test('sends nothing of the kind by default, and the record as a create', async () => {
    const server = await startServer()
    const { call: held } = await heldTurn(server, IDS)
    const reading = readUntil(`${server.url}${path}`, 'turn_complete')
    add(held, opened(), delta(HALF), delta(ARGS.slice(60)))
    await finish(server, 't', held)
    expect(framesOf((await reading).json as string).map(summary)).toEqual(['create'])
  })

  test('sends a call that is complete as its record only', async () => {
    const server = await startServer()
    const { call: held } = await heldTurn(server, IDS)
    add(held, opened(), delta(ARGS), DONE)
    await readUntil(`${server.url}${path}`, '"toolName":"write"')
    const late = readUntil(`${server.url}${path}?arguments=stream`, 'turn_complete')
    held.finish()
    expect(framesOf((await late).json as string).map(summary)).toEqual(['create'])
  })

  test('continues after a cursor without repeating the record', async () => {
    const server = await startServer()
    const { call: held } = await heldTurn(server, IDS)
    const first = readUntil(`${server.url}${path}?arguments=stream`, '"toolArguments":{"text"')
    add(held, opened(), delta(HALF), delta(ARGS.slice(60)), DONE)
    await first
    const { json } = await call(server, 'GET /xapi/turns/t')
    const { offset } = json as { offset: string }
    const from = path.includes('threads') ? `t/${offset}` : offset
    const second = readUntil(`${server.url}${path}?arguments=stream&from=${from}`, 'turn_complete')
    held.finish()
    const { status, json: rest } = await second
    expect([status, framesOf(rest as string)]).toEqual([200, []])
    expect(rest).toContain('turn_complete')
  })
})

test('V7 a turn that is started with arguments=stream sends them', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const answer = call(server, 'POST /xapi/threads/h/turn?arguments=stream', {
    body: { prompt: 'Hi', providerId: 'held', turnId: 't' },
  })
  const held = await next
  add(held, opened(), delta(HALF))
  await readUntil(`${server.url}/xapi/turns/t/stream?arguments=stream`, 'toolArgumentsText')
  await finish(server, 't', held)
  const frames = framesOf((await answer).json as string)
  expect(frames.map(summary)).toContain('update')
  expect(frames.some(({ output }) => output.toolArgumentsText !== undefined)).toBe(true)
})

test('V7 another value of arguments is refused', async () => {
  const server = await startServer()
  const { status } = await call(server, 'GET /xapi/turns/t/stream?arguments=all')
  expect(status).toBe(400)
})

test('V7 a deleted turn ends the stream, and a later turn with its id has a new one', async () => {
  const server = await startServer()
  const { call: held } = await heldTurn(server, { turnId: 't', threadId: 'h' })
  add(held, opened('first'))
  const url = `${server.url}/xapi/turns/t/stream?arguments=stream`
  const reading = readUntil(url, 'never')
  await readUntil(url, '"first"')
  await call(server, 'DELETE /api/v2/threads/h')
  await reading
  const again = await heldTurn(server, { turnId: 't', threadId: 'h' })
  add(again.call, opened('second'))
  const { json } = await readUntil(url, '"second"')
  expect(json).not.toContain('"first"')
  await finish(server, 't', again.call)
})
