import type { Check, Verdict } from '@turnstream/conformance/internal/endpoint/check'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { clip } from '@turnstream/core/internal/protocol/printable'
import { EXIT, type ExitCode } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { wrap } from '../text.ts'

const COLOURS = { ok: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' } as const

const VERDICT_WIDTH = 9
/** Bounds text from other servers; our own sentences are shorter. */
const MAX_CHARS = 400

export async function writeReport(
  checks: readonly Check[],
  { write, style, columns, isInteractive }: Terminal,
  json: boolean,
): Promise<ExitCode> {
  const count = (verdict: Verdict) => checks.filter((check) => check.verdict === verdict).length
  const [warn, fail, skipped] = [count('warn'), count('fail'), count('skipped')]
  const width = Math.max(...checks.map(({ name }) => name.length)) + 2
  const indent = ' '.repeat(VERDICT_WIDTH + width)
  const room = isInteractive ? columns : Infinity
  const rows = checks.map(({ name, verdict, found, expected, fix }) => {
    const lines = [
      `${' '.repeat(VERDICT_WIDTH)}${name.padEnd(width)}${clip(found, MAX_CHARS)}`,
      ...(expected === undefined ? [] : [`expected: ${clip(expected, MAX_CHARS)}`]),
      ...(fix === undefined ? [] : [`fix: ${clip(fix, MAX_CHARS)}`]),
    ].join(`\n${indent}`)
    const label = style(COLOURS[verdict], verdict.padEnd(VERDICT_WIDTH))
    return label + wrap(lines, room).slice(VERDICT_WIDTH)
  })
  const summary = [
    `${count('ok')} ok`,
    ...(warn > 0 ? [`${warn} warned`] : []),
    ...(fail > 0 ? [`${fail} failed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ].join(', ')
  await write(
    json
      ? jsonLine({ ok: fail === 0, failed: fail, warned: warn, checks })
      : `${[...rows, '', summary].join('\n')}\n`,
  )
  return fail > 0 ? EXIT.failed : EXIT.done
}
