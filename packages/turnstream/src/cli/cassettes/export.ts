import { resolve } from 'node:path'
import {
  type Cassette,
  type CassetteCall,
  encodeCassette,
  type TimedOutput,
} from '@turnstream/core/internal/cassettes/cassette'
import { computeOutputs } from '@turnstream/core/internal/cassettes/layers'
import { isTerminal } from '@turnstream/core/internal/formats/translation'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import {
  CASSETTE_FORMAT,
  CASSETTE_VERSION,
  DEFAULT_TENANT,
  ROUTES,
  SSE_EVENTS,
} from '@turnstream/core/internal/protocol/names'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import { START } from '../../log/offsets.ts'
import { logOf } from '../../log/tenants.ts'
import { CommandError, defineCommand, EXIT, type ExitCode, UsageError } from '../command.ts'
import { openGateway, path, turnLost } from '../gateway.ts'
import { readConfiguration } from '../serve/configuration.ts'
import { readTurnRecording } from '../serve/turn-recorder.ts'
import type { Terminal } from '../terminal.ts'
import { parseTenant, STORE_OPTIONS, withStore } from '../transfer/export.ts'
import { timed } from './input.ts'

export const exportCassette = defineCommand({
  name: 'cassette export',
  summary: 'write a turn as a cassette',
  usage: [
    'turnstream cassette export <turnId> [--url <url> | --store <where>] > turn.cassette.jsonl',
  ],
  about: `Writes the events of an ended turn, the snapshots that follow from them, and the provider's responses
if "turnstream serve --record" recorded them. An embedded store must not be in use. --url reads the
turn from a running gateway, without those responses.`,
  options: {
    ...STORE_OPTIONS,
    tenant: { value: 'name', about: 'the tenant of the turn', default: DEFAULT_TENANT },
    url: {
      value: 'url',
      about: 'read from this gateway, to the end of the turn; takes the run id',
    },
    json: { about: 'print a failure as {"error"}' },
  },
  words: { takes: 'one turn id', min: 1, max: 1 },
  examples: [
    'turnstream cassette export first-turn --url $TURNSTREAM_URL > first-turn.cassette.jsonl',
  ],
  exitCodes: '0 done · 1 no such turn, or the store or the gateway failed · 2 usage error',
  async run({ values, words: [turnId = ''] }, terminal) {
    const { url, store } = values
    const tenant = parseTenant(values.tenant) ?? DEFAULT_TENANT
    if (url === undefined) return await exportStored({ ...values, tenant }, turnId, terminal)
    if (store !== undefined) throw new UsageError('--url cannot be combined with --store')
    await writeCassette(turnCassette(await servedEvents(url, turnId, terminal)), terminal)
    return EXIT.done
  },
})

async function exportStored(
  values: Omit<Parameters<typeof withStore>[0], 'mustExist'> & { readonly tenant: string },
  turnId: string,
  terminal: Terminal,
): Promise<ExitCode> {
  const { env, cwd } = terminal
  const { tenant, config } = values
  const { record } = readConfiguration({ flags: {}, env, cwd, configFile: config }).settings
  return await withStore({ ...values, mustExist: true }, terminal, async (log) => {
    const events = await storedEvents(log, tenant, turnId)
    const recorded = record && (await readTurnRecording(resolve(cwd, record), { tenant, turnId }))
    await writeCassette(turnCassette(events, recorded || undefined), terminal)
    return EXIT.done
  })
}

/** Snapshots contain all text so far. Those of a very long answer would be far larger than its events. */
const MAX_OUTPUT_CHARS = 64 * 1024 * 1024

function turnCassette(events: readonly StreamEvent[], recorded?: Cassette): Cassette {
  const start = events.find((event) => event.type === 'response_start')
  const [first] = events
  if (first === undefined || start === undefined) {
    throw new CommandError('TURN_UNKNOWN', 'the turn has no events')
  }
  const { turn_id: turnId, thread_id: threadId } = start.payload
  const createdAt = first.timestamp
  const endedAt = events.at(-1)?.timestamp ?? createdAt
  // An earlier turn with the same id may have left its recording.
  const recordedAt = recorded?.header.createdAt ?? 0
  const isRecorded = recordedAt >= createdAt && recordedAt <= endedAt
  const timedEvents = timed(events)
  return {
    header: { format: CASSETTE_FORMAT, version: CASSETTE_VERSION, createdAt, turnId, threadId },
    calls: recorded !== undefined && isRecorded ? shiftCalls(recorded, createdAt) : [],
    events: timedEvents,
    outputs: boundedOutputs(timedEvents),
  }
}

/** Leaves out growing text, but no end, when all snapshots would be too large. */
function boundedOutputs(events: Cassette['events']): TimedOutput[] {
  const outputs: TimedOutput[] = []
  let chars = 0
  computeOutputs(events, (output, at) => {
    const isGrowing = 'itemId' in output && ['create', 'update'].includes(output.status)
    const size = 'itemId' in output ? output.content.length : 0
    if (isGrowing && chars + size > MAX_OUTPUT_CHARS) return
    chars += size
    outputs.push({ at, output })
  })
  return outputs
}

/** A recording of the gateway starts with the first call, a cassette with the turn. */
function shiftCalls({ header, calls }: Cassette, createdAt: number): CassetteCall[] {
  const shift = header.createdAt - createdAt
  return calls.map(({ at, response, chunks, end, ...call }) => ({
    ...call,
    at: at + shift,
    ...(response !== undefined && { response: { ...response, at: response.at + shift } }),
    chunks: chunks.map((chunk) => ({ ...chunk, at: chunk.at + shift })),
    ...(end !== undefined && { end: { ...end, at: end.at + shift } }),
  }))
}

async function storedEvents(log: TurnLog, tenant: string, turnId: string): Promise<StreamEvent[]> {
  const own = logOf(log, tenant)
  const turn = await own.getTurn(turnId)
  if (!turn) throw new CommandError('TURN_UNKNOWN', `tenant ${tenant} has no turn ${turnId}`)
  if (turn.expired) throw new CommandError('TURN_EXPIRED', `turn ${turnId} has expired`)
  if (!turn.sealed) {
    const advice = 'wait until it has ended, or pass --url, which waits'
    throw new CommandError('TURN_RUNNING', `turn ${turnId} is in progress: ${advice}`)
  }
  const events: StreamEvent[] = []
  for await (const record of own.tail(turnId, 'events', START, new AbortController().signal)) {
    const event = 'data' in record ? parseJsonSafe(record.data) : undefined
    if (isStreamEvent(event)) events.push(event)
  }
  return events
}

/** Reads the events of a turn from a running gateway, to the end of the turn. */
async function servedEvents(url: string, turnId: string, terminal: Terminal) {
  const frames = openGateway(url, terminal).frames(path(ROUTES.runStream, turnId))
  let events: StreamEvent[] = []
  for await (const { event: name, data } of frames) {
    // The events follow from the beginning.
    if (name === SSE_EVENTS.resync) events = []
    const event = name === '' ? parseJsonSafe(data) : undefined
    if (!isStreamEvent(event)) continue
    events.push(event)
    if (isTerminal(event.payload)) return events
  }
  throw turnLost(turnId)
}

async function writeCassette(cassette: Cassette, { write }: Terminal): Promise<void> {
  for (const line of encodeCassette(cassette)) await write(line)
}
