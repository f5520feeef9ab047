import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ListedTurn, Page, PageOptions, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, isTurnMissing, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { DEFAULT_TENANT, isTenant } from '@turnstream/core/internal/protocol/names'
import { DATA_FILE } from '../../log/embedded/data-file.ts'
import { EmbeddedLog } from '../../log/embedded/embedded-log.ts'
import { START } from '../../log/offsets.ts'
import { logOf } from '../../log/tenants.ts'
import { CommandError, defineCommand, EXIT, type ExitCode, UsageError } from '../command.ts'
import { CONFIG_OPTION, readConfiguration } from '../serve/configuration.ts'
import { openStore, type StoreOptions, storeFault } from '../serve/store.ts'
import { type Terminal, throttled } from '../terminal.ts'
import { formatHeader } from './format.ts'

export const STORE_OPTIONS = {
  store: {
    value: 'where',
    about: 'a directory, redis://… or rediss://… (default: as "turnstream serve")',
  },
  config: CONFIG_OPTION,
} as const

export const exportCommand = defineCommand({
  name: 'export',
  summary: 'write the turns of a store as JSON lines',
  usage: [
    'turnstream export [--store <where>] [--tenant <name>] [--thread <id>] [--json] > turns.jsonl',
  ],
  about: `Writes every thread and every ended turn, for backup, repair or another store. Running and damaged
turns are skipped and named on standard error. Responses with store: false are left out. An embedded
store must not be in use. Nothing expires during the export.`,
  options: {
    ...STORE_OPTIONS,
    tenant: { value: 'name', about: 'only this tenant (embedded: all, Redis: default)' },
    thread: { value: 'id', about: 'only this thread' },
    json: { about: 'no summary on standard error; print a failure as {"error"}' },
  },
  examples: ['turnstream export --store ./data > turns.jsonl'],
  exitCodes: '0 done · 1 the store is damaged, or failed · 2 usage error',
  async run({ values }, terminal) {
    const { thread, json } = values
    const tenant = parseTenant(values.tenant)
    const { counts, warn, exportThread } = createExport(terminal)
    let isIncomplete = false
    const onDamage = ({ message }: TurnstreamError): void => {
      isIncomplete = true
      warn(`${message}. Threads and turns may be missing from the export`)
    }
    return await withStore({ ...values, mustExist: true, onDamage }, terminal, async (log) => {
      const { write, clock, progress } = terminal
      await write(formatHeader(clock.now()))
      try {
        for await (const each of selectThreads(log, tenant, thread)) {
          await exportThread(logOf(log, each.tenant), each.tenant, each.threadId)
        }
      } finally {
        progress('')
      }
      await write(jsonLine({ end: counts }))
      const { turns, threads, open, damaged } = counts
      const skipped = `${open} in progress and ${damaged} damaged skipped`
      if (!json) terminal.writeError(`${turns} turns of ${threads} threads exported, ${skipped}\n`)
      return damaged > 0 || isIncomplete ? EXIT.failed : EXIT.done
    })
  },
})

export function parseTenant(name: string | undefined): string | undefined {
  if (name === undefined || isTenant(name)) return name
  throw new UsageError('--tenant must be lower-case letters, digits, - and _')
}

function createExport({ write, writeError, progress, clock }: Terminal) {
  const counts = { threads: 0, turns: 0, open: 0, expired: 0, damaged: 0 }
  const show = throttled(clock, progress)

  function warn(sentence: string): void {
    progress('')
    writeError(`turnstream: ${sentence}\n`)
  }

  async function unlessDamaged(name: string, tenant: string, task: () => Promise<void>) {
    try {
      await task()
    } catch (error) {
      // Deleted or expired meanwhile. Without its last line, an import ignores what was written.
      if (isTurnMissing(error)) return
      if (!hasCode(error, 'STORE_CORRUPT')) throw error
      counts.damaged += 1
      warn(`${name} of tenant ${tenant} is damaged and was skipped: ${error.message}`)
    }
  }

  async function exportTurn(log: TurnLog, tenant: string, record: ListedTurn): Promise<void> {
    // Content that is deleted soon must not live on in a file.
    if (record.expired || record.contentMs !== undefined) {
      counts.expired += 1
    } else if (!record.sealed) {
      counts.open += 1
      warn(`turn ${record.turnId} of tenant ${tenant} is in progress and was skipped`)
    } else {
      // The turn is read completely before it is written, so damaged turns are never exported in part.
      for await (const _ of turnLines(log, tenant, record));
      for await (const line of turnLines(log, tenant, record)) await write(line)
      counts.turns += 1
      show(() => `${counts.turns} turns`)
    }
  }

  async function exportThread(log: TurnLog, tenant: string, threadId: string): Promise<void> {
    await unlessDamaged(`thread ${threadId}`, tenant, async () => {
      const record = await log.getThread(threadId)
      if (record === undefined) return
      const { creation: _creation, version: _version, ...thread } = record
      await write(jsonLine({ thread: { tenant, ...thread } }))
      counts.threads += 1
    })
    for await (const place of turnPlacesOf(log, threadId)) {
      const isDamaged = place instanceof TurnstreamError
      const name = isDamaged ? `a turn of thread ${threadId}` : `turn ${place.turnId}`
      await unlessDamaged(name, tenant, async () => {
        if (isDamaged) throw place
        const { turnId, replacedBy } = place
        const record = await log.getTurn(turnId)
        if (record === undefined) return
        await exportTurn(log, tenant, { ...record, ...(replacedBy && { replacedBy }) })
      })
    }
  }

  return { counts, warn, exportThread }
}

/** The lines of an ended turn, as an import compares them. */
export async function* turnLines(log: TurnLog, tenant: string, turn: ListedTurn) {
  const { turnId } = turn
  const response = await log.getResponse(turnId)
  yield jsonLine({ turn: { tenant, ...turn, ...(response !== undefined && { response }) } })
  for await (const record of log.tail(turnId, 'events', START, new AbortController().signal)) {
    if ('data' in record) yield `{"event":${record.data}}\n`
  }
  const { records } = await log.snapshot(turnId)
  for (const { data, key, eventId, timestamp } of records) {
    yield `{"output":${data},${jsonLine({ key, eventId, timestamp }).slice(1)}`
  }
  yield '{"sealed":true}\n'
}

/** Last changed comes last, so an import keeps the order. */
async function* selectThreads(log: TurnLog, tenant?: string, thread?: string) {
  if (log instanceof EmbeddedLog) {
    for (const each of log.allThreads()) {
      const isSelected = tenant === undefined || tenant === each.tenant
      if (isSelected && (thread === undefined || thread === each.threadId)) yield each
    }
    return
  }
  const name = tenant ?? DEFAULT_TENANT
  const ids = thread === undefined ? [] : [thread]
  const own = logOf(log, name)
  const listed = allItems((page) => own.listThreads(page))
  if (thread === undefined) for await (const { threadId } of listed) ids.push(threadId)
  for (const threadId of ids.toReversed()) yield { tenant: name, threadId }
}

/** The turns of a thread, replaced ones too. For one whose id is damaged, the error. */
async function* turnPlacesOf(log: TurnLog, threadId: string) {
  if (log instanceof EmbeddedLog) yield* log.turnPlaces(threadId)
  else yield* allItems((page) => log.listTurns(threadId, { ...page, replaced: true }))
}

async function* allItems<T>(list: (page: PageOptions) => Promise<Page<T>>): AsyncGenerator<T> {
  let cursor: string | undefined
  do {
    const page = await list({ limit: 200, ...(cursor && { cursor }) })
    yield* page.items
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

interface StoreValues extends Pick<StoreOptions, 'onDamage'> {
  readonly store?: string | undefined
  readonly config?: string | undefined
  readonly mustExist: boolean
}

/** Nothing expires while turns are copied. */
const NEVER_MS = 1e15

/** Opens the store that a server would use here and closes it afterwards. CommandError if it fails. */
export async function withStore(
  { store: flag, config, mustExist, onDamage }: StoreValues,
  terminal: Terminal,
  use: (log: TurnLog) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { env, cwd, clock } = terminal
  const sources = { flags: { store: flag }, env, cwd, configFile: config }
  const { settings, store } = readConfiguration(sources)
  if (store.kind === 'memory') throw new UsageError('--store must be a directory or redis://…')
  const isEmbedded = store.kind === 'embedded'
  try {
    if (isEmbedded && mustExist && !existsSync(join(store.directory, DATA_FILE))) {
      throw new TurnstreamError('STORE_FAILED', `no store in ${store.directory}`)
    }
    // In Redis every turn has its own retention.
    const retention = isEmbedded && { retentionMs: NEVER_MS }
    const options = { ...settings, ...retention, clock, onError: () => {}, onDamage }
    const log = await openStore(store, options)
    try {
      return await use(log)
    } finally {
      await log.close()
    }
  } catch (error) {
    if (!(error instanceof TurnstreamError)) throw error
    throw new CommandError(error.code, storeFault(store, error), { cause: error })
  }
}
