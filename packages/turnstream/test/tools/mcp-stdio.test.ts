/** A local MCP server that writes more than it should. */

import { fileURLToPath } from 'node:url'
import { ReadBuffer } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { connectMcpTools } from '../../src/server.ts'
import { PART_BYTES } from '../../src/tools/mcp-client.ts'

const SERVER = fileURLToPath(new URL('flooding-server.mjs', import.meta.url))

/** Counts iterations of the event loop. */
function countIterations(): { readonly count: number } {
  const loop = { count: 0 }
  let next = setImmediate(step)
  function step(): void {
    loop.count += 1
    next = setImmediate(step)
  }
  onTestFinished(() => clearImmediate(next))
  return loop
}

test('a flood of notifications is read 4 KB in each iteration of the event loop', async () => {
  const server = { command: process.execPath, args: [SERVER] }
  const tools = await connectMcpTools({ name: 'flooding', server })
  onTestFinished(() => tools.close())
  const loop = countIterations()
  const perIteration = new Map<number, number>()
  // oxlint-disable-next-line typescript/unbound-method -- called with its object
  const { append } = ReadBuffer.prototype
  vi.spyOn(ReadBuffer.prototype, 'append').mockImplementation(function (this: ReadBuffer, part) {
    perIteration.set(loop.count, (perIteration.get(loop.count) ?? 0) + part.length)
    append.call(this, part)
  })
  onTestFinished(() => void vi.restoreAllMocks())
  const bytes = 1_000_000
  const [flood] = tools.tools
  const { signal } = new AbortController()
  const context = { turnId: 't', threadId: 'h', callId: 'c', signal }
  expect(await flood?.execute({ bytes }, context)).toBe('xxxx')
  const read = [...perIteration.values()]
  expect(read.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(0.99 * bytes)
  expect(Math.max(...read)).toBeLessThanOrEqual(PART_BYTES)
})
