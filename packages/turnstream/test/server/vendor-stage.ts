/** A gateway with an agent behind it, and clients of the vendors' APIs before it. */
import type { StreamOutput } from '../../../core/src/index.ts'
import { answer, end, call as toolCall } from '../turns/payloads.ts'
import { puppet, type Round } from '../turns/rig.ts'
import { call, readUntil, type ServerOptions, startServer, type TestServer } from './support.ts'
import { DOORS, type DoorName } from './vendor-doors.ts'

const ARGUMENTS = '{"city": "Berlin", "a": [1.0]}'

export function say(text: string): Round {
  return [...answer('1', text), end()]
}

/** Calls a tool of the client, then answers. */
export function toolLoop(callId = 'call_1'): Round[] {
  const looks = { call_id: callId, arguments: ARGUMENTS }
  return [
    [...answer('1', 'Let me see. '), ...toolCall('2', 'look_up', looks), end('tool_calls')],
    ...['Sunny.', 'Rain.', 'Snow.'].map(say),
  ]
}

/** The rounds of the agent are those of all requests, one after another. */
export async function stage(rounds: readonly Round[] = toolLoop(), options: ServerOptions = {}) {
  const provider = puppet(rounds, 'agent')
  const server = await startServer({ more: [provider], ...options })
  const { url, log } = server
  const open = (door: DoorName, options: object = {}) =>
    DOORS[door]({ url, model: 'agent/m', ...options })
  const threadOf = async ({ turnId }: { readonly turnId: string }) =>
    (await log.getTurn(turnId))?.threadId ?? 'none'
  /** What the provider was sent, an item each. */
  const sent = (index = -1) => provider.calls.at(index)?.request.input.map(brief) ?? []
  return { server, provider, open, threadOf, sent }
}

function brief(item: { readonly type: string }): string {
  const { origin = '', content = '', output = '', call_id = '' } = item as Record<string, string>
  return item.type === 'message' ? `${origin}: ${content}` : `${item.type} ${call_id}${output}`
}

export function outputLine(output: StreamOutput): string[] {
  if (output.type === 'message') return [`${output.origin}: ${output.content} ${output.status}`]
  if (output.type !== 'tool_call') return []
  return [`${output.toolName} ${output.status} ${JSON.stringify(output.toolOutput)}`]
}

interface Page {
  readonly turns: readonly { readonly turnId: string; readonly outputs: StreamOutput[] }[]
}

export async function load(server: TestServer, threadId: string): Promise<StreamOutput[]> {
  const { json } = await call(server, `GET /xapi/threads/${threadId}`)
  return (json as Page).turns.flatMap(({ outputs }) => outputs)
}

/** The items of a thread's stream, each as it was sent last, in order of first appearance. */
export async function stream(
  server: TestServer,
  threadId: string,
  last: string,
): Promise<StreamOutput[]> {
  const { json } = await readUntil(`${server.url}/xapi/threads/${threadId}/stream`, last)
  const items = new Map<string, StreamOutput>()
  for (const [, data = ''] of (json as string).matchAll(/^data: (\{.*)$/gm)) {
    const output = JSON.parse(data) as StreamOutput
    if ('itemId' in output) items.set(output.itemId, output)
  }
  return [...items.values()]
}
