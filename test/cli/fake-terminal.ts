import type { Terminal } from '../../src/cli/terminal.ts'
import { type FakeClock, fakeClock } from '../../src/testing/fake-clock.ts'

/** A terminal whose input is given and whose output is kept. */
export function fakeTerminal(input: Iterable<Uint8Array> | AsyncIterable<Uint8Array> = []) {
  const clock: FakeClock = fakeClock()
  const written: string[] = []
  const errors: string[] = []
  const statuses: string[] = []
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
    style: (_style, text) => text,
    columns: 120,
    clock,
  }
  const output = () => written.join('')
  return { terminal, clock, output, errors: () => errors.join(''), statuses }
}
