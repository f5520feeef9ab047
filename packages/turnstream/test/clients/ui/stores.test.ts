/** The recipes of docs/client.md for Svelte, Vue and Solid, with the real packages. */

import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { read } from '../../../../../test/repository/sources.ts'
import { createClient, type Thread, type ThreadState } from '../../../../client/src/index.ts'
import { finishedTurn, heldTurn, startServer } from '../../server/support.ts'
import { runBundle } from './bundle.ts'

vi.setConfig({ testTimeout: 60_000 })

const LONG = 'All work and no play makes a long text. '.repeat(250)

/** A recipe by its first line. */
function recipe(name: string): string {
  const [, code] =
    new RegExp(`^\`\`\`js\\n// ${name}\\n(.*?)^\`\`\`$`, 'ms').exec(read('docs/client.md')) ?? []
  if (code === undefined) throw new Error(`no recipe for ${name}`)
  return code
}

interface Follower {
  /** Calls with each state until the returned function is called. */
  readonly follow: (thread: Thread, onState: (state: ThreadState) => void) => () => void
}

/** How a component of each framework uses its recipe. */
const COMPONENTS = {
  Svelte: `export const follow = (thread, onState) => toStore(thread).subscribe(onState)`,
  Vue: `
    import { effectScope, watchEffect } from 'vue'
    export function follow(thread, onState) {
      const scope = effectScope()
      scope.run(() => {
        const state = useLive(thread)
        watchEffect(() => onState(state.value), { flush: 'sync' })
      })
      return () => scope.stop()
    }`,
  Solid: `
    import { createEffect, createRoot } from 'solid-js'
    export const follow = (thread, onState) =>
      createRoot((dispose) => {
        const state = useLive(thread)
        createEffect(() => onState(state()))
        return dispose
      })`,
}

describe.each(Object.entries(COMPONENTS))('%s', (name, component) => {
  test('shows a thread as it grows, keeps what is equal, and disconnects', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const { call } = await heldTurn(server, { threadId: 'h' })
    const thread = createClient({ baseUrl: server.url, random: () => 0 }).thread('h')
    const { follow } = await runBundle<Follower>({ 'entry.js': `${recipe(name)}\n${component}` })
    const states: ThreadState[] = []
    const stop = follow(thread, (state) => states.push(state))
    expect(states).toHaveLength(1)
    await eventually(() => expect(states.at(-1)?.turns).toHaveLength(2))
    const [finished] = states.at(-1)?.turns ?? []
    for (let count = 1; count <= 3; count++) {
      call.say(LONG)
      await eventually(() => {
        expect(states.at(-1)?.turns[1]?.items[1]?.content).toBe(LONG.repeat(count))
      })
    }
    expect(states.at(-1)?.turns[0]).toBe(finished)
    stop()
    await eventually(() => expect(thread.getSnapshot().connection.status).toBe('idle'))
    const { length } = states
    // What another one follows does not reach it.
    const unsubscribe = thread.subscribe(() => {})
    call.finish()
    await eventually(() => expect(thread.getSnapshot().turns[1]?.status).toBe('complete'))
    unsubscribe()
    expect(states).toHaveLength(length)
  })
})
