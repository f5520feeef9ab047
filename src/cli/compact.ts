import { parseArgs } from 'node:util'
import { type Compaction, compactEmbeddedLog } from '../log/embedded/compact.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { type Command, EXIT, type ExitCode, UsageError } from './command.ts'
import { megabytes } from './progress.ts'
import type { Terminal } from './terminal.ts'

const HELP = `turnstream compact: give back the room that deleted turns left

Usage
  turnstream compact <directory> [--json]

The file of an embedded store never shrinks by itself: room that becomes free is used again. This
writes the store anew without it. No process may use the directory meanwhile, and the disk needs room
for a second copy. Nothing is lost if it is stopped in the middle.

Options
  --json             one JSON object: {"bytesBefore","bytesAfter"}, or {"error"}

Example
  turnstream compact ./data

Exit codes
  0 done · 1 it could not be done, and the store is as it was · 2 the command makes no sense
`

const OPTIONS = { json: { type: 'boolean', default: false } } as const

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  const [directory, ...rest] = positionals
  if (directory === undefined || rest.length > 0) {
    throw new UsageError('compact takes one directory')
  }
  try {
    const compaction = await compact(directory, terminal)
    await terminal.write(values.json ? `${JSON.stringify(compaction)}\n` : say(compaction))
    return EXIT.done
  } catch (error) {
    if (!(error instanceof TurnstreamError)) throw error
    const { code, message } = error
    if (values.json) await terminal.write(`${JSON.stringify({ error: { code, message } })}\n`)
    else terminal.writeError(`turnstream: ${message} (${code})\n`)
    return EXIT.failed
  }
}

async function compact(directory: string, { status, clock }: Terminal): Promise<Compaction> {
  try {
    return await compactEmbeddedLog(directory, {
      clock,
      onProgress: (bytes) => status(`${megabytes(bytes)} written`),
    })
  } finally {
    status('')
  }
}

function say({ bytesBefore, bytesAfter }: Compaction): string {
  const freed = Math.round((1 - bytesAfter / bytesBefore) * 100)
  return `${megabytes(bytesBefore)} before, ${megabytes(bytesAfter)} after: ${freed} % freed\n`
}

export const compactCommand: Command = {
  summary: 'give back the room that deleted turns left in a store',
  help: HELP,
  options: OPTIONS,
  run,
}
