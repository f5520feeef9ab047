import { parseArgs } from 'node:util'
import { parseJsonSafe } from '../protocol/json.ts'
import { ROUTES, SSE_EVENTS } from '../protocol/names.ts'
import type { StreamEventPayload } from '../protocol/stream-event.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { type Command, EXIT, type ExitCode, UsageError } from './command.ts'
import { clip, summaryOf } from './output-lines.ts'
import { printable } from './printable.ts'
import { RemoteError, tellRemoteError } from './remote/errors.ts'
import { EventFeed } from './remote/event-feed.ts'
import { GatewayClient } from './remote/gateway-client.ts'
import { keyHeaders } from './remote/key.ts'
import { gatewayUrl } from './remote/target.ts'
import { outcomeOf, type TurnOutcome, turnOutputs } from './remote/turn-outputs.ts'
import type { Terminal } from './terminal.ts'

const HELP = `turnstream tail: follow a turn of a running gateway to its end

Usage
  turnstream tail <turnId> [--raw] [--from <offset>] [--json]

Shows each snapshot as a line: the offset to resume from, what it is, and what it says. A turn that has
ended is shown as it is. When the connection breaks it is made again.

Options
  --url <url>        the gateway (TURNSTREAM_URL, or http://127.0.0.1:4010)
  --raw              the events of the provider instead; takes the id of the run, which is that of the
                     turn unless the turn was submitted with both
  --from <offset>    only what comes after it
  --json             JSON objects as they travel, one to a line

A gateway with keys is sent the one in TURNSTREAM_KEY, or in the file that TURNSTREAM_KEY_FILE names.

Examples
  turnstream tail first-turn
  turnstream tail first-turn --raw --json

Exit codes
  0 the turn ended · 1 it ended as an error or was stopped, or cannot be followed · 2 bad usage
`

const OPTIONS = {
  url: { type: 'string' },
  raw: { type: 'boolean', default: false },
  from: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

function parse(args: string[], terminal: Terminal) {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  const [id, ...rest] = positionals
  if (id === undefined || rest.length > 0) throw new UsageError('tail takes the id of one turn')
  const headers = keyHeaders(terminal)
  return { ...values, id, headers, url: gatewayUrl(values.url, terminal) }
}

type Options = ReturnType<typeof parse>

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const options = parse(args, terminal)
  try {
    const outcome = await (options.raw ? tailEvents : tailOutputs)(options, terminal)
    if (outcome !== undefined) return outcome === 'complete' ? EXIT.done : EXIT.failed
    // Nothing follows the offset: the turn ended at or before it.
    if (options.from !== undefined) return EXIT.done
    throw new RemoteError('TURN_LOST', `the stream of turn ${options.id} ended before the turn did`)
  } catch (error) {
    await tellRemoteError(error, terminal, options.json)
    return EXIT.failed
  }
}

async function tailOutputs(options: Options, terminal: Terminal): Promise<TurnOutcome | undefined> {
  const { id, json } = options
  const feed = feedOf(options, terminal, ROUTES.turnOutputStream, { turnId: id })
  let outcome: TurnOutcome | undefined
  for await (const { output, offset } of turnOutputs(feed)) {
    const { title, detail } = summaryOf(output)
    await writeLine(terminal, json ? JSON.stringify(output) : { offset, title, detail })
    outcome = outcomeOf(output)
  }
  return outcome
}

async function tailEvents(options: Options, terminal: Terminal): Promise<TurnOutcome | undefined> {
  const { id, json } = options
  const feed = feedOf(options, terminal, ROUTES.runStream, { runId: id })
  for await (const { event: name, data, id: offset } of feed) {
    if (name === SSE_EVENTS.resync)
      terminal.writeError(`turnstream: resync: ${clip(data, MAX_NOTE)}\n`)
    if (name !== '') continue
    const event = parseJsonSafe(data)
    if (!isStreamEvent(event)) continue
    const { type: title, payload } = event
    await writeLine(terminal, json ? data : { offset, title, detail: detailOf(payload) })
    const outcome = endingOf(payload)
    if (outcome !== undefined) return outcome
  }
  return undefined
}

function feedOf(
  { url, from, headers }: Options,
  { clock, status }: Terminal,
  route: string,
  params: Record<string, string>,
): EventFeed {
  return new EventFeed({
    url: new GatewayClient(url, clock).address(route, params),
    headers,
    clock,
    signal: new AbortController().signal,
    onBreak: (ms) => status(`connection lost, trying again in ${(ms / 1000).toFixed(1)} s`),
    ...(from !== undefined && { from }),
  })
}

interface Line {
  readonly offset: string
  readonly title: string
  readonly detail: string
}

const MAX_NOTE = 200
const OFFSET_WIDTH = 8
const TITLE_WIDTH = 20

async function writeLine({ write, status, style, columns }: Terminal, line: Line | string) {
  status('')
  if (typeof line === 'string') return write(`${line}\n`)
  const room = Math.max(20, columns - OFFSET_WIDTH - TITLE_WIDTH - 2)
  const offset = style('dim', printable(line.offset).padEnd(OFFSET_WIDTH))
  const title = style('cyan', line.title.padEnd(TITLE_WIDTH))
  return write(`${offset} ${title} ${clip(line.detail, room)}\n`)
}

function detailOf({ type: _type, ...rest }: StreamEventPayload): string {
  return JSON.stringify(rest)
}

function endingOf(payload: StreamEventPayload): TurnOutcome | undefined {
  switch (payload.type) {
    case 'response_done':
      return payload.status
    case 'response_error':
      return 'error'
    case 'turn_aborted_by_user':
      return 'aborted'
    default:
      return undefined
  }
}

export const tail: Command = {
  summary: 'follow a turn of a running gateway to its end',
  help: HELP,
  options: OPTIONS,
  run,
}
