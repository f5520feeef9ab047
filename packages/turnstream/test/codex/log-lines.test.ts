import { describe, expect, test } from 'vitest'
import { LogLines } from '../../src/codex/log-lines.ts'

function linesOf(...chunks: readonly (string | Uint8Array)[]): string[] {
  const lines: string[] = []
  const log = new LogLines((line) => lines.push(line))
  for (const chunk of chunks) log.feed(Buffer.from(chunk))
  log.end()
  return lines
}

const KEY = 'sk-ant-REDACTED'

describe('lines of a log', () => {
  test('are complete wherever the output is split, without colours and blank lines', () => {
    const text = '\u001b[31merror\u001b[0m: é\n\n  two\nlast'
    const bytes = Buffer.from(text)
    for (let cut = 0; cut <= bytes.length; cut++) {
      const lines = linesOf(bytes.subarray(0, cut), bytes.subarray(cut))
      expect(lines).toEqual(['error: é', 'two', 'last'])
    }
  })

  test('never contain a secret, even one that is split', () => {
    for (let cut = 0; cut <= KEY.length; cut++) {
      const [line = ''] = linesOf(`key ${KEY.slice(0, cut)}`, `${KEY.slice(cut)} leaked\n`)
      expect(line).toMatch(/^key .* leaked$/)
      expect(line).not.toContain(KEY.slice(7))
    }
  })

  test('are cut when they are too long, and take no memory beyond that', () => {
    const chunks = Array.from({ length: 100 }, () => 'x'.repeat(1000))
    expect(linesOf(...chunks, '\nnext\n')).toEqual(['x'.repeat(2000), 'next'])
  })
})
