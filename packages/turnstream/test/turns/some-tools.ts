/** Tools of a server that do what their names say. */
import type { Tool } from '../../src/server.ts'

export function tool(name: string, execute: Tool['execute'], more: Partial<Tool> = {}): Tool {
  return { name, parameters: { type: 'object' }, execute, ...more }
}

export const TOOLS = [
  tool('add', ({ a, b }) => Number(a) + Number(b)),
  tool('echo', (args) => args),
  tool('say', async ({ text }) => String(text)),
  tool('tell', () => {
    throw new Error('asked https://me:password@host?key=secret with sk-0123456789')
  }),
  tool('fail', () => {
    throw new Error('no such city')
  }),
  tool('reject', () => Promise.reject('for no reason')),
  tool('baffle', () => Promise.reject(Object.create(null))),
  tool('mumble', () => {
    throw Object.assign(new Error(), { message: Object.create(null) })
  }),
  tool('nothing', () => undefined),
  tool('circle', () => {
    const circle: unknown[] = []
    circle.push(circle)
    return circle
  }),
  tool('flood', () => 'x'.repeat(1_000_001)),
]
