/** `gateway.run`: one turn in this process, without HTTP. */

import { describe, expect, test } from 'vitest'
import type { StreamOutput } from '../../../core/src/index.ts'
import type { RunRequest } from '../../src/server.ts'
import { sealed, startServer, type TestServer } from './support.ts'

async function outputsOf({ gateway }: TestServer, request: RunRequest): Promise<StreamOutput[]> {
  const outputs: StreamOutput[] = []
  for await (const output of gateway.run(request)) outputs.push(output)
  return outputs
}

function textOf(outputs: readonly StreamOutput[], origin: string): string | undefined {
  const last = outputs.findLast((each) => each.type === 'message' && each.origin === origin)
  return last?.type === 'message' ? last.content : undefined
}

describe('a run', () => {
  test('yields the snapshots of the turn to its end', async () => {
    const server = await startServer()
    const outputs = await outputsOf(server, { prompt: 'Hi', threadId: 'a', turnId: 'one' })
    expect(outputs[0]).toMatchObject({ type: 'turn_started', turnId: 'one', threadId: 'a' })
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete', turnId: 'one' })
    expect(textOf(outputs, 'user')).toBe('Hi')
    expect(textOf(outputs, 'agent')).toBe('Hello, world.')
    expect((await server.log.getThread('a'))?.title).toBe('Hi')
  })

  test('takes an input, and belongs to its tenant', async () => {
    const server = await startServer()
    const input = [{ type: 'message', origin: 'user', content: 'In' }] as const
    const outputs = await outputsOf(server, { input, tenant: 'acme', turnId: 'one' })
    expect(textOf(outputs, 'user')).toBe('In')
    expect(await server.log.getTurn('one')).toBeUndefined()
    expect(await server.log.ofTenant('acme').getTurn('one')).toBeDefined()
  })

  test('starts every item with `create`, whatever was superseded before it was read', async () => {
    const server = await startServer({ processor: { batchGradient: [1] } })
    const first = new Map<string, string>()
    for await (const output of server.gateway.run({ prompt: 'Hi', model: 'held/m', turnId: 'a' })) {
      if (output.type === 'turn_started') {
        const call = server.held.calls[0] ?? (await server.held.nextCall())
        for (let part = 0; part < 20; part++) {
          call.say('some words ')
          await new Promise(setImmediate)
        }
        call.finish()
        await sealed(server.log, 'a')
      }
      if ('itemId' in output && !first.has(output.itemId)) first.set(output.itemId, output.status)
    }
    expect([...first.values()]).not.toContain('update')
  })

  test('goes on when its reader leaves', async () => {
    const server = await startServer()
    for await (const _ of server.gateway.run({ prompt: 'Hi', model: 'held/m', turnId: 'a' })) break
    const call = server.held.calls[0] ?? (await server.held.nextCall())
    expect(call.signal.aborted).toBe(false)
    call.finish()
    await sealed(server.log, 'a')
    expect((await server.log.getTurn('a'))?.status).toBe('complete')
  })

  test('is cancelled by its signal, and ends', async () => {
    const server = await startServer()
    const controller = new AbortController()
    const outputs: StreamOutput[] = []
    const request = { prompt: 'Hi', model: 'held/m', turnId: 'a', signal: controller.signal }
    for await (const output of server.gateway.run(request)) {
      outputs.push(output)
      controller.abort()
    }
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete', status: 'aborted' })
    expect(await server.log.getTurn('a')).toMatchObject({
      status: 'aborted',
      cancelReason: 'cancelled by the caller',
    })
  })

  test('is not started by an aborted signal', async () => {
    const server = await startServer()
    const signal = AbortSignal.abort(new Error('too late'))
    await expect(outputsOf(server, { prompt: 'Hi', turnId: 'a', signal })).rejects.toThrow(
      'too late',
    )
    expect(await server.log.getTurn('a')).toBeUndefined()
  })

  test.each([
    ['an unknown model', { prompt: 'Hi', model: 'unknown' }, 'MODEL_UNKNOWN'],
    ['neither prompt nor input', {}, 'REQUEST_INVALID'],
  ])('throws for %s', async (_what, request, code) => {
    await expect(outputsOf(await startServer(), request)).rejects.toMatchObject({ code })
  })

  test('ends with the gateway', async () => {
    const server = await startServer()
    const outputs: StreamOutput[] = []
    for await (const output of server.gateway.run({ prompt: 'Hi', model: 'held/m' })) {
      outputs.push(output)
      if (output.type === 'turn_started') void server.gateway.close()
    }
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'SERVER_SHUTDOWN' } })
    await expect(outputsOf(server, { prompt: 'Hi' })).rejects.toMatchObject({
      code: 'SERVER_SHUTDOWN',
    })
  })
})
