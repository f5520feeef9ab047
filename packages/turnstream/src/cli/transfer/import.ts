import type { Lease, LogWriter, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { logOf } from '../../log/tenants.ts'
import { defineCommand, EXIT, readInput } from '../command.ts'
import { type Terminal, throttled } from '../terminal.ts'
import { STORE_OPTIONS, turnLines, withStore } from './export.ts'
import { type Line, type PartLine, readExport, type TurnLine } from './format.ts'

export const importCommand = defineCommand({
  name: 'import',
  summary: 'add exported turns to a store',
  usage: ['turnstream import [--store <where>] [--json] [file]'],
  about: `Reads the output of "turnstream export" from a file or standard input. Turns that the store already
has are skipped, so an import can be repeated. A different turn with the same id is refused and
named. An embedded store must not be in use; it is created if it does not exist.`,
  options: {
    ...STORE_OPTIONS,
    json: {
      about: 'print one JSON object: {"imported","skipped","refused","complete"} or {"error"}',
    },
  },
  words: { takes: 'one file', min: 0, max: 1 },
  examples: ['turnstream import --store ./copy turns.jsonl'],
  exitCodes:
    '0 done · 1 turns were refused, or the export is incomplete · 2 usage error or unreadable input',
  async run({ values, words: [file] }, terminal) {
    const lines = readExport(readInput(file, terminal))
    try {
      // Checks the header before a store is created.
      const first = await lines.next()
      return await withStore({ ...values, mustExist: false }, terminal, async (log) => {
        const { counts, take, finish } = createImport(log, terminal)
        try {
          if (first.done !== true) await take(first.value)
          for await (const line of lines) await take(line)
        } finally {
          await finish()
        }
        const { imported, skipped, refused, complete } = counts
        const cut = complete ? '' : '; the export is cut off'
        const text = `${imported} turns imported, ${skipped} skipped, ${refused} refused${cut}\n`
        await terminal.write(values.json ? jsonLine(counts) : text)
        return refused > 0 || !complete ? EXIT.failed : EXIT.done
      })
    } finally {
      // An open input would keep the process alive.
      await lines.return(undefined)
    }
  },
})

function createImport(store: TurnLog, { clock, status, writeError }: Terminal) {
  /** `complete`: the last line of the export was read. */
  const counts = { imported: 0, skipped: 0, refused: 0, complete: false }
  const show = throttled(clock, status)
  /** Undefined between turns, and after a turn was refused. */
  let open: TurnTarget | undefined

  async function take(line: Line): Promise<void> {
    if ('end' in line || 'thread' in line || 'turn' in line) await finish()
    if ('end' in line) counts.complete = true
    else if ('thread' in line) {
      const { tenant, ...thread } = line.thread
      const log = logOf(store, tenant)
      // An existing thread is not changed.
      if ((await log.getThread(thread.threadId)) === undefined) await log.putThread(thread)
    } else await takePart(line)
  }

  /** Removes an incomplete turn. */
  async function finish(): Promise<void> {
    if (open !== undefined) await refuse(open.turn, 'its end is missing')
    status('')
  }

  /** Refuses a turn that cannot be imported and continues with the next. A store failure ends the import. */
  async function takePart(line: { readonly turn: TurnLine } | PartLine): Promise<void> {
    const turn = 'turn' in line ? line.turn : open?.turn
    try {
      if ('turn' in line) open = await openTarget(store, line.turn)
      else await open?.take(line)
    } catch (error) {
      if (turn === undefined || !isTurnError(error)) throw error
      await refuse(turn, error.message)
    }
    if (!('sealed' in line) || open === undefined) return
    counts[open.isNew ? 'imported' : 'skipped'] += 1
    open = undefined
    show(() => `${counts.imported} turns imported`)
  }

  async function refuse({ tenant, turnId }: TurnLine, reason: string): Promise<void> {
    const target = open
    open = undefined
    counts.refused += 1
    status('')
    writeError(`turnstream: turn ${turnId} of tenant ${tenant} is refused: ${reason}\n`)
    await target?.discard()
  }

  return { counts, take, finish }
}

class DifferentTurn extends Error {
  override readonly message = 'the store has a different turn with this id'
}

function isTurnError(error: unknown): error is Error {
  if (!(error instanceof TurnstreamError)) return error instanceof DifferentTurn
  return error.code === 'STORE_CORRUPT' || !error.code.startsWith('STORE_')
}

/** Takes the parts of one turn in their order; the last one is `sealed`. */
interface TurnTarget {
  readonly turn: TurnLine
  readonly isNew: boolean
  take(line: PartLine): Promise<void>
  discard(): Promise<unknown>
}

/** The owner of a turn that is being imported. It is left in the record when an import is interrupted. */
const OWNER = 'turnstream import'

/** Longer than any import of a turn, so no other process claims it. */
const LEASE_MS = 10 * 60 * 1000
/** Max. records in memory, each of which may be large. */
const BATCH_RECORDS = 64

/** Creates the turn, or compares it with the stored one. */
async function openTarget(store: TurnLog, turn: TurnLine): Promise<TurnTarget> {
  const { tenant, turnId, runId, threadId, request } = turn
  const log = logOf(store, tenant)
  const existing = await log.getTurn(turnId)
  const isInterrupted = existing?.sealed === false && existing.owner === OWNER
  if (isInterrupted) await log.deleteTurn(turnId)
  if (existing === undefined || isInterrupted) return createImported(log, turn)
  const isSame =
    existing.runId === runId && existing.threadId === threadId && existing.request === request
  if (!existing.sealed || existing.expired || !isSame) throw new DifferentTurn()
  if ((await log.getResponse(turnId)) !== turn.response) throw new DifferentTurn()
  const lines = turnLines(log, tenant, existing)
  await lines.next() // the turn itself, which was just compared
  return {
    turn,
    isNew: false,
    async take(line) {
      const { value } = await lines.next()
      const isEqual = typeof value === 'string' && jsonLine(JSON.parse(value)) === jsonLine(line)
      if (!isEqual) throw new DifferentTurn()
    },
    discard: () => lines.return(undefined),
  }
}

async function createImported(log: TurnLog, turn: TurnLine): Promise<TurnTarget> {
  const { turnId, epoch, response } = turn
  let lease = await addTurn(log, turn)
  // Outputs get new offsets. With a later epoch, cursors from the old store are foreign and skip nothing.
  while (lease.epoch < epoch) lease = await log.claim(turnId, OWNER, 0)
  lease = await log.claim(turnId, OWNER, LEASE_MS)
  const events = sealingWriter(log.open(lease, 'events'))
  const outputs = sealingWriter(log.open(lease, 'processed'))
  return {
    turn,
    isNew: true,
    async take(line) {
      if ('event' in line) return events.add(line.event as StreamEvent)
      if ('sealed' in line) {
        await events.seal(response)
        return outputs.seal()
      }
      const { output, eventId, timestamp } = line
      return outputs.add({ output: output as StreamOutput, eventId, timestamp })
    },
    discard: () => log.deleteTurn(turnId),
  }
}

async function addTurn(log: TurnLog, turn: TurnLine): Promise<Lease> {
  const { tenant: _tenant, epoch: _epoch, response: _response, replaces, ...fields } = turn
  const created = { ...fields, owner: OWNER }
  if (replaces === undefined) return log.create(created, 0)
  try {
    return await log.create({ ...created, replaces }, 0)
  } catch (error) {
    // The turn that it replaced was not exported, or has another replacement here.
    if (!hasCode(error, 'TURN_UNKNOWN') && !hasCode(error, 'TURN_REPLACED')) throw error
    return log.create(created, 0)
  }
}

/** Holds the last record back to write it with the seal. */
function sealingWriter<Entry>(writer: LogWriter<Entry>) {
  let last: Entry | undefined
  let unstored = 0
  return {
    async add(entry: Entry): Promise<void> {
      if (last !== undefined) writer.write(last)
      last = entry
      unstored += 1
      if (unstored < BATCH_RECORDS) return
      await writer.flush()
      unstored = 0
    },
    async seal(response?: string): Promise<void> {
      if (last !== undefined) await writer.seal(last, response)
    },
  }
}
