import { createReadStream } from 'node:fs'
import { parseArgs } from 'node:util'
import { logOf } from '../../log/tenants.ts'
import type { TurnLog } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
import { fileFault } from '../file-fault.ts'
import { atTimes } from '../progress.ts'
import type { Terminal } from '../terminal.ts'
import {
  headerFault,
  type Line,
  parseLine,
  readLines,
  type ThreadLine,
  type TurnLine,
} from './format.ts'
import { STORE_OPTIONS, withStore } from './store.ts'
import { compareTurn, createTurn, differs, OWNER, Refusal, type TurnTarget } from './turn-import.ts'

const HELP = `turnstream import: add exported turns to a store

Usage
  turnstream import [--store <where>] [--json] [file]

Reads a file or standard input, as "turnstream export" writes it. A turn that the store has already is
skipped; one that differs from it is refused and named. So an import can be repeated. An embedded store must
not be in use; it is created if it does not exist.

Options
  --store <where>    a directory, redis://… or rediss://… (that of "turnstream serve")
  --config <file>    settings as JSON (./turnstream.config.json, if it is there)
  --json             one JSON object: {"imported","skipped","refused","complete"}, or {"error"}

Example
  turnstream import --store ./copy turns.jsonl

Exit codes
  0 done · 1 turns were refused, or the export is cut off · 2 the command or the input cannot be read
`

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: STORE_OPTIONS,
  })
  const [file, ...rest] = positionals
  if (rest.length > 0) throw new UsageError('import takes one file')
  const input = file === undefined ? terminal.input : readFile(file)
  const texts = readLines(input)
  try {
    const lines = checkedLines(texts)
    // Before a store is created for what is no export.
    const first = await lines.next()
    return await withStore(values, terminal, { mustExist: false }, async (log) => {
      const task = new Import(log, terminal)
      try {
        if (first.done !== true) await task.take(first.value)
        for await (const line of lines) await task.take(line)
      } finally {
        await task.finish()
      }
      return await report(task.counts, values.json, terminal)
    })
  } finally {
    // An input that stays open would keep the process.
    await texts.return(undefined)
  }
}

async function report(counts: Counts, json: boolean, { write }: Terminal): Promise<ExitCode> {
  const { imported, skipped, refused, complete } = counts
  const cut = complete ? '' : '; the export is cut off'
  const text = `${imported} turns imported, ${skipped} skipped, ${refused} refused${cut}`
  await write(`${json ? JSON.stringify(counts) : text}\n`)
  return refused > 0 || !complete ? EXIT.failed : EXIT.done
}

async function* readFile(file: string): AsyncIterable<Uint8Array> {
  try {
    for await (const chunk of createReadStream(file)) yield chunk as Uint8Array
  } catch (error) {
    throw new UsageError(fileFault(error, file))
  }
}

/** What the lines after the header say. UsageError names the first that cannot be read. */
async function* checkedLines(texts: AsyncGenerator<string>): AsyncGenerator<Line> {
  for (let number = 1; ; number++) {
    const refuse = (reason: string) => new UsageError(`line ${number} of the input: ${reason}`)
    const { value, done } = await texts.next().catch((error: unknown) => {
      throw error instanceof RangeError ? refuse(error.message) : error
    })
    if (done === true && number === 1) throw new UsageError('the input is empty')
    if (done === true) return
    const fault = number === 1 ? headerFault(value) : undefined
    if (fault !== undefined) throw refuse(fault)
    if (number === 1) continue
    const line = parseLine(value)
    if (!line.ok) throw refuse(line.reason)
    yield line.value
  }
}

interface Counts {
  imported: number
  skipped: number
  refused: number
  /** The last line was there. */
  complete: boolean
}

class Import {
  readonly counts: Counts = { imported: 0, skipped: 0, refused: 0, complete: false }
  readonly #log: TurnLog
  readonly #terminal: Terminal
  readonly #tell: (say: () => string) => void
  /** Undefined between turns, and after a turn was refused. */
  #target: (TurnTarget & { readonly turn: TurnLine; readonly isNew: boolean }) | undefined

  constructor(log: TurnLog, terminal: Terminal) {
    this.#log = log
    this.#terminal = terminal
    this.#tell = atTimes(terminal.clock, terminal.status)
  }

  async take(line: Line): Promise<void> {
    const target = this.#target
    if ('event' in line) await this.#attempt(() => target?.event(line.event))
    else if ('output' in line) await this.#attempt(() => target?.output(line))
    else if ('sealed' in line) await this.#attempt(() => this.#seal())
    else {
      await this.#discard('its end is missing')
      if ('end' in line) this.counts.complete = true
      else if ('thread' in line) await this.#putThread(line.thread)
      else await this.#begin(line.turn)
    }
  }

  /** A turn that is not complete is removed. */
  async finish(): Promise<void> {
    await this.#discard('its end is missing')
    this.#terminal.status('')
  }

  /** One that exists stays as it is. */
  async #putThread({ tenant, threadId, title, metadata }: ThreadLine): Promise<void> {
    const log = logOf(this.#log, tenant)
    if ((await log.getThread(threadId)) !== undefined) return
    const given = { ...(title !== undefined && { title }), ...(metadata && { metadata }) }
    await log.putThread({ threadId, ...given })
  }

  async #begin(turn: TurnLine): Promise<void> {
    const { tenant, turnId, runId, threadId, request } = turn
    const log = logOf(this.#log, tenant)
    await this.#attempt(async () => {
      let existing = await log.getTurn(turnId)
      if (existing?.sealed === false && existing.owner === OWNER) {
        // An import was interrupted.
        await log.deleteTurn(turnId)
        existing = undefined
      }
      if (existing === undefined) {
        this.#target = { ...(await createTurn(log, turn)), turn, isNew: true }
        return
      }
      const { sealed, expired } = existing
      const isSame =
        existing.runId === runId && existing.threadId === threadId && existing.request === request
      if (!sealed || expired || !isSame) throw differs()
      this.#target = { ...(await compareTurn(log, turn)), turn, isNew: false }
    }, turn)
  }

  async #seal(): Promise<void> {
    if (this.#target === undefined) return
    const { isNew } = this.#target
    await this.#target.seal()
    this.#target = undefined
    this.counts[isNew ? 'imported' : 'skipped'] += 1
    this.#tell(() => `${this.counts.imported} turns imported`)
  }

  /** A turn that cannot be imported is refused, and the next one is tried; a store that fails ends the import. */
  async #attempt(task: () => Promise<void> | undefined, turn = this.#target?.turn): Promise<void> {
    try {
      await task()
    } catch (error) {
      const isOfTurn = error instanceof Refusal || isTurnError(error)
      if (!isOfTurn || turn === undefined) throw error
      if (this.#target === undefined) this.#refuse(turn, error.message)
      else await this.#discard(error.message)
    }
  }

  async #discard(reason: string): Promise<void> {
    if (this.#target === undefined) return
    const { turn, discard } = this.#target
    this.#target = undefined
    this.#refuse(turn, reason)
    await discard()
  }

  #refuse({ tenant, turnId }: TurnLine, reason: string): void {
    const { status, writeError } = this.#terminal
    this.counts.refused += 1
    status('')
    writeError(`turnstream: turn ${turnId} of tenant ${tenant} is refused: ${reason}\n`)
  }
}

function isTurnError(error: unknown): error is TurnstreamError {
  if (!(error instanceof TurnstreamError)) return false
  return error.code === 'STORE_CORRUPT' || !error.code.startsWith('STORE_')
}

export const importCommand: Command = {
  summary: 'add exported turns to a store',
  help: HELP,
  options: STORE_OPTIONS,
  run,
}
