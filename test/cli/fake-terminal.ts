import type { Terminal } from '../../src/cli/terminal.ts'
import { type FakeClock, fakeClock } from '../../src/testing/fake-clock.ts'

/** A terminal whose input is given and whose output is kept. */
export function fakeTerminal(input: Iterable<Uint8Array> | AsyncIterable<Uint8Array> = []) {
  const clock: FakeClock = fakeClock()
  const written: string[] = []
  const errors: string[] = []
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
    style: (_style, text) => text,
    columns: 120,
    clock,
  }
  return { terminal, clock, output: () => written.join(''), errors: () => errors.join('') }
}
