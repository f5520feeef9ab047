import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import type { Terminal } from '../../src/cli/terminal.ts'

type Input = Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** A terminal whose input is given and whose output is kept; `more` takes the place of any part of it. */
export function fakeTerminal(input: Input = [], more: Partial<Terminal> = {}) {
  const clock: FakeClock = fakeClock()
  const written: string[] = []
  const errors: string[] = []
  const statuses: string[] = []
  const exits: number[] = []
  const listeners = new Set<() => void>()
  const crashListeners: ((error: unknown) => void)[] = []
  const hangups = new Set<() => void>()
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield* input
  }
  const terminal: Terminal = {
    input: chunks(),
    write: async (text) => {
      written.push(text)
    },
    writeError: (text) => {
      errors.push(text)
    },
    status: (text) => {
      statuses.push(text)
    },
    progress: (text) => {
      statuses.push(text)
    },
    style: (_style, text) => text,
    columns: 120,
    clock,
    isInteractive: false,
    ask: async () => undefined,
    onSignal: (listener) => {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    onCrash: (listener) => {
      crashListeners.push(listener)
    },
    onHangup: (listener) => {
      hangups.add(listener)
    },
    exit: (code) => {
      exits.push(code)
    },
    env: {},
    cwd: '/',
    ...more,
  }
  return {
    terminal,
    clock,
    output: () => written.join(''),
    errors: () => errors.join(''),
    statuses,
    exits,
    /** Simulates an uncaught error. */
    crash: (error: unknown) => {
      for (const listener of crashListeners) listener(error)
    },
    /** Sends SIGHUP; false without a listener, when the process would end. */
    hangUp: () => {
      for (const listener of hangups) listener()
      return hangups.size > 0
    },
    /** Sends a signal; false without a listener, when the process would end. */
    signal: (_signal: 'SIGINT' | 'SIGTERM') => {
      for (const listener of listeners) listener()
      return listeners.size > 0
    },
  }
}
