import { START } from '../../log/offsets.ts'
import { MAX_APPEND_RECORDS } from '../../log/records.ts'
import type { Lease, LogName, LogRecord, NewRecord, TurnLog } from '../../log/turn-log.ts'
import type { OutputLine, TurnLine } from './format.ts'

/** Says in the record of an open turn that an import was interrupted. */
export const OWNER = 'turnstream import'

/** No turn takes that long; nobody else claims it meanwhile. */
const LEASE_MS = 10 * 60 * 1000
/** Texts of so many characters are appended at once. */
const BATCH_CHARS = 4 * 1024 * 1024

/** Takes the parts of one turn in their order. */
export interface TurnTarget {
  event: (data: object) => Promise<void>
  output: (line: OutputLine) => Promise<void>
  seal: () => Promise<void>
  /** Removes what was written. */
  discard: () => Promise<void>
}

/** Why a turn is not imported, in words. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
}

/** Writes a new turn. */
export async function createTurn(log: TurnLog, turn: TurnLine): Promise<TurnTarget> {
  const { turnId, runId, threadId, request, epoch, response } = turn
  const named = { turnId, runId, threadId, owner: OWNER }
  let lease = await log.create({ ...named, ...(request !== undefined && { request }) }, 0)
  // Outputs get new offsets. With a later epoch, cursors from the old store are foreign and skip nothing.
  while (lease.epoch < epoch) lease = await log.claim(turnId, OWNER, 0)
  lease = await log.claim(turnId, OWNER, LEASE_MS)
  const events = new Appender(log, lease, 'events')
  const outputs = new Appender(log, lease, 'processed')
  return {
    event: (data) => events.add({ data: JSON.stringify(data) }),
    output: ({ output, ...rest }) => outputs.add({ data: JSON.stringify(output), ...rest }),
    seal: async () => {
      await events.seal(response)
      await outputs.seal()
    },
    discard: async () => {
      await log.deleteTurn(turnId)
    },
  }
}

/** Appends in batches. The last record stays back, because the seal comes with it. */
class Appender {
  readonly #log: TurnLog
  readonly #lease: Lease
  readonly #name: LogName
  #batch: NewRecord[] = []
  #chars = 0
  #seq = 0

  constructor(log: TurnLog, lease: Lease, name: LogName) {
    this.#log = log
    this.#lease = lease
    this.#name = name
  }

  async add(record: Omit<NewRecord, 'seq'>): Promise<void> {
    if (this.#batch.length === MAX_APPEND_RECORDS || this.#chars > BATCH_CHARS) {
      await this.#log.append(this.#lease, this.#name, this.#batch)
      this.#batch = []
      this.#chars = 0
    }
    this.#seq += 1
    this.#chars += record.data.length
    this.#batch.push({ seq: this.#seq, ...record })
  }

  async seal(response?: string): Promise<void> {
    const options = { seal: true, ...(response !== undefined && { response }) }
    await this.#log.append(this.#lease, this.#name, this.#batch, options)
  }
}

/** Compares with a turn that exists. Refuses the first difference. */
export async function compareTurn(log: TurnLog, turn: TurnLine): Promise<TurnTarget> {
  const { turnId } = turn
  const tail = log.tail(turnId, 'events', START, new AbortController().signal)
  const events = tail[Symbol.asyncIterator]()
  const outputs = (await log.snapshot(turnId)).records.values()
  if ((await log.getResponse(turnId)) !== turn.response) throw differs()
  return {
    event: async (data) => {
      const { value } = await events.next()
      if (normalize(value) !== JSON.stringify(data)) throw differs()
    },
    output: async ({ output, key, eventId, timestamp }) => {
      const { value } = outputs.next()
      const isSame =
        value?.key === key && value.eventId === eventId && value.timestamp === timestamp
      if (!isSame || normalize(value) !== JSON.stringify(output)) throw differs()
    },
    seal: async () => {
      const rest = [(await events.next()).done, outputs.next().done]
      if (rest.includes(false)) throw differs()
    },
    discard: async () => {
      await events.return?.()
    },
  }
}

/** As it would come out of an import. */
function normalize(record: unknown): string | undefined {
  const data = (record as Partial<LogRecord> | undefined)?.data
  return data === undefined ? undefined : JSON.stringify(JSON.parse(data))
}

export function differs(): Refusal {
  return new Refusal('the store has another turn with its id')
}
