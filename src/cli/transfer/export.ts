import { parseArgs } from 'node:util'
import { EmbeddedLog } from '../../log/embedded/embedded-log.ts'
import { START } from '../../log/offsets.ts'
import { logOf } from '../../log/tenants.ts'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { hasCode, type TurnstreamError } from '../../protocol/errors.ts'
import { DEFAULT_TENANT, isTenant } from '../../protocol/tenant.ts'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
import { atTimes } from '../progress.ts'
import type { Terminal } from '../terminal.ts'
import { formatHeader } from './format.ts'
import { STORE_OPTIONS, withStore } from './store.ts'

const HELP = `turnstream export: write the turns of a store as JSON lines

Usage
  turnstream export [--store <where>] [--tenant <name>] [--thread <id>] [--json] > turns.jsonl

Writes every thread and every turn that has ended, for backup, repair or another store. Turns in progress and
damaged turns are skipped and named on standard error. An embedded store must not be in use. It is read as a
server would read it; nothing expires meanwhile.

Options
  --store <where>    a directory, redis://… or rediss://… (that of "turnstream serve")
  --tenant <name>    only this tenant (embedded: all, Redis: default)
  --thread <id>      only this thread
  --config <file>    settings as JSON (./turnstream.config.json, if it is there)
  --json             no summary on standard error, and what fails as {"error"}

Example
  turnstream export --store ./data > turns.jsonl

Exit codes
  0 done · 1 damaged turns were skipped, or the store cannot be used · 2 the command makes no sense
`

const OPTIONS = {
  ...STORE_OPTIONS,
  tenant: { type: 'string' },
  thread: { type: 'string' },
} as const

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { values } = parseArgs({ args, options: OPTIONS })
  const { tenant, thread, json } = values
  if (tenant !== undefined && !isTenant(tenant)) {
    throw new UsageError('--tenant takes small letters, digits, - and _')
  }
  return await withStore(values, terminal, { mustExist: true }, async (log) => {
    const counts = await new Export(log, terminal).run({ tenant, thread })
    const { turns, threads, open, damaged } = counts
    const skipped = `${open} in progress and ${damaged} damaged skipped`
    if (!json) terminal.writeError(`${turns} turns of ${threads} threads exported, ${skipped}\n`)
    return damaged > 0 ? EXIT.failed : EXIT.done
  })
}

const GONE = ['TURN_UNKNOWN', 'TURN_DELETED', 'TURN_EXPIRED'] as const

interface Selection {
  readonly tenant: string | undefined
  readonly thread: string | undefined
}

class Export {
  readonly #log: TurnLog
  readonly #terminal: Terminal
  readonly #tell: (say: () => string) => void
  readonly #counts = { threads: 0, turns: 0, open: 0, expired: 0, damaged: 0 }

  constructor(log: TurnLog, terminal: Terminal) {
    this.#log = log
    this.#terminal = terminal
    this.#tell = atTimes(terminal.clock, terminal.progress)
  }

  async run(selection: Selection) {
    const { write, clock, progress } = this.#terminal
    await write(formatHeader(clock.now()))
    try {
      for await (const { tenant, threadId } of threadsOf(this.#log, selection)) {
        await this.#thread(tenant, threadId)
      }
    } finally {
      progress('')
    }
    await write(`${JSON.stringify({ end: this.#counts })}\n`)
    return this.#counts
  }

  async #thread(tenant: string, threadId: string): Promise<void> {
    const log = logOf(this.#log, tenant)
    await this.#unlessDamaged(`thread ${threadId}`, tenant, async () => {
      const record = await log.getThread(threadId)
      if (record === undefined) return
      const { creation: _creation, ...thread } = record
      await this.#terminal.write(`${JSON.stringify({ thread: { tenant, ...thread } })}\n`)
      this.#counts.threads += 1
    })
    for await (const turnId of turnIdsOf(log, threadId)) {
      const name = typeof turnId === 'string' ? `turn ${turnId}` : `a turn of thread ${threadId}`
      await this.#unlessDamaged(name, tenant, async () => {
        if (typeof turnId !== 'string') throw turnId
        await this.#turn(log, tenant, turnId)
      })
    }
  }

  async #turn(log: TurnLog, tenant: string, turnId: string): Promise<void> {
    const record = await log.getTurn(turnId)
    if (record === undefined) return
    if (record.expired) {
      this.#counts.expired += 1
      return
    }
    if (!record.sealed) {
      this.#counts.open += 1
      this.#warn(`turn ${turnId} of tenant ${tenant} is in progress and was skipped`)
      return
    }
    // All of it is read before any of it is written: what is damaged must not be in the export.
    for await (const _ of turnLines(log, tenant, record));
    for await (const line of turnLines(log, tenant, record)) await this.#terminal.write(line)
    this.#counts.turns += 1
    this.#tell(() => `${this.#counts.turns} turns`)
  }

  async #unlessDamaged(name: string, tenant: string, task: () => Promise<void>): Promise<void> {
    try {
      await task()
    } catch (error) {
      // Deleted or expired meanwhile. Without its last line, nobody imports what was written of it.
      if (GONE.some((code) => hasCode(error, code))) return
      if (!hasCode(error, 'STORE_CORRUPT')) throw error
      this.#counts.damaged += 1
      this.#warn(`${name} of tenant ${tenant} is damaged and was skipped: ${error.message}`)
    }
  }

  #warn(sentence: string): void {
    this.#terminal.progress('')
    this.#terminal.writeError(`turnstream: ${sentence}\n`)
  }
}

async function* turnLines(log: TurnLog, tenant: string, turn: TurnRecord): AsyncGenerator<string> {
  const { turnId } = turn
  const response = await log.getResponse(turnId)
  const fields = { tenant, ...turn, ...(response !== undefined && { response }) }
  yield `${JSON.stringify({ turn: fields })}\n`
  for await (const record of log.tail(turnId, 'events', START, new AbortController().signal)) {
    if ('data' in record) yield `{"event":${record.data}}\n`
  }
  const { records } = await log.snapshot(turnId)
  for (const { data, key, eventId, timestamp } of records) {
    const rest = JSON.stringify({ key, eventId, timestamp })
    yield `{"output":${data},${rest.slice(1)}\n`
  }
  yield '{"sealed":true}\n'
}

/** Those changed last come last, so that an import leaves them in the same order. */
async function* threadsOf(log: TurnLog, { tenant, thread }: Selection) {
  if (log instanceof EmbeddedLog) {
    for (const each of log.allThreads()) {
      const isSelected = tenant === undefined || tenant === each.tenant
      if (isSelected && (thread === undefined || thread === each.threadId)) yield each
    }
    return
  }
  const name = tenant ?? DEFAULT_TENANT
  const ids = thread === undefined ? await threadIdsOf(logOf(log, name)) : [thread]
  for (const threadId of ids.toReversed()) yield { tenant: name, threadId }
}

async function threadIdsOf(log: TurnLog): Promise<string[]> {
  const ids: string[] = []
  let cursor: string | undefined
  do {
    const page = await log.listThreads({ limit: 200, ...(cursor && { cursor }) })
    ids.push(...page.items.map(({ threadId }) => threadId))
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return ids
}

async function* turnIdsOf(
  log: TurnLog,
  threadId: string,
): AsyncGenerator<string | TurnstreamError> {
  if (log instanceof EmbeddedLog) {
    yield* log.turnIds(threadId)
    return
  }
  let cursor: string | undefined
  do {
    const page = await log.listTurns(threadId, { limit: 200, ...(cursor && { cursor }) })
    for (const { turnId } of page.items) yield turnId
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

export const exportCommand: Command = {
  summary: 'write the turns of a store as JSON lines',
  help: HELP,
  options: OPTIONS,
  run,
}
