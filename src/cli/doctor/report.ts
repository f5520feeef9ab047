import { EXIT, type ExitCode } from '../command.ts'
import { clip } from '../output-lines.ts'
import type { Terminal } from '../terminal.ts'
import type { Check, Verdict } from './check.ts'

const COLOURS = { ok: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' } as const

const VERDICT_WIDTH = 9
/** What comes from elsewhere may be of any length; a sentence of ours is shorter. */
const MAX_CHARS = 400

/** Writes what was found, as a table for people or as one object, and says what the process ends with. */
export async function writeReport(
  checks: readonly Check[],
  terminal: Terminal,
  json: boolean,
): Promise<ExitCode> {
  await terminal.write(json ? reportJson(checks) : reportText(checks, terminal))
  return checks.some(({ verdict }) => verdict === 'fail') ? EXIT.failed : EXIT.done
}

function reportJson(checks: readonly Check[]): string {
  const { fail, warn } = countsOf(checks)
  return `${JSON.stringify({ ok: fail === 0, failed: fail, warned: warn, checks })}\n`
}

function reportText(checks: readonly Check[], { style }: Pick<Terminal, 'style'>): string {
  const width = Math.max(...checks.map(({ name }) => name.length)) + 2
  const indent = ' '.repeat(VERDICT_WIDTH + width)
  const rows = checks.flatMap(({ name, verdict, found, expected, fix }) => [
    `${style(COLOURS[verdict], verdict.padEnd(VERDICT_WIDTH))}${name.padEnd(width)}${clip(found, MAX_CHARS)}`,
    ...(expected === undefined ? [] : [`${indent}expected: ${clip(expected, MAX_CHARS)}`]),
    ...(fix === undefined ? [] : [`${indent}fix: ${clip(fix, MAX_CHARS)}`]),
  ])
  return `${[...rows, '', summaryOf(checks)].join('\n')}\n`
}

function summaryOf(checks: readonly Check[]): string {
  const { ok, warn, fail, skipped } = countsOf(checks)
  const parts = [
    `${ok} ok`,
    ...(warn > 0 ? [`${warn} to look at`] : []),
    ...(fail > 0 ? [`${fail} failed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ]
  return parts.join(', ')
}

function countsOf(checks: readonly Check[]): Record<Verdict, number> {
  const counts = { ok: 0, warn: 0, fail: 0, skipped: 0 }
  for (const { verdict } of checks) counts[verdict] += 1
  return counts
}
