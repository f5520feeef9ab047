/** Messages of every grammar, likely and not. */
import * as fc from 'fast-check'
import {
  completed,
  counts,
  failedAttempt,
  legacy,
  note,
  rawCall,
  rawCompleted,
  rawOutput,
  started,
  textDelta,
  tokenUsage,
  turnCompleted,
  turnFailed,
  turnStarted,
} from './events.ts'

const id = fc.constantFrom('a', 'b', 'c', 'call-0', '__proto__', 'toString')
export const word = fc.oneof(
  fc.string(),
  fc.constantFrom('\ud83d', '\ude00', '__proto__', '{"a":1}', ''),
)
const spokenItem = fc.oneof(
  fc.record({ type: fc.constant('agentMessage'), id, text: word }),
  fc.record({
    type: fc.constant('reasoning'),
    id,
    summary: fc.array(word),
    content: fc.array(word),
  }),
  fc.record({ type: fc.constant('userMessage'), id, content: fc.array(fc.record({ text: word })) }),
)
const toolItem = fc.record(
  {
    type: fc.constantFrom(
      'commandExecution',
      'fileChange',
      'mcpToolCall',
      'dynamicToolCall',
      'webSearch',
      'plan',
      'sleep',
    ),
    id,
    tool: word,
    arguments: fc.anything(),
    query: word,
    text: word,
    status: fc.constantFrom('inProgress', 'completed', 'failed', 'declined'),
    aggregatedOutput: fc.option(word),
    exitCode: fc.option(fc.integer()),
    contentItems: fc.option(fc.array(fc.record({ text: word }), { maxLength: 2 })),
    success: fc.option(fc.boolean()),
    result: fc.anything(),
    error: fc.anything(),
  },
  { requiredKeys: ['type', 'id'] },
)
const item = fc.oneof(spokenItem, toolItem)
const status = fc.constantFrom('completed', 'interrupted', 'failed')
const usage = fc.oneof(
  fc.tuple(fc.nat(), fc.nat()).map(([input, output]) => counts(input, output)),
  fc.constant(counts(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  fc.anything(),
)
const index = fc.constantFrom<unknown>(0, 1, -1, 0.5, 1e300, '0', null, undefined)

export const v2Event = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom('u', 'v').map((turn) => turnStarted(turn)) },
  { weight: 5, arbitrary: item.map(started) },
  { weight: 5, arbitrary: item.map(completed) },
  { weight: 8, arbitrary: fc.tuple(id, word).map(([itemId, text]) => textDelta(itemId, text)) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(id, word, index)
      .map(([itemId, delta, summaryIndex]) =>
        note('item/reasoning/summaryTextDelta', { itemId, delta, summaryIndex }),
      ),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(id, word)
      .map(([itemId, delta]) => note('item/commandExecution/outputDelta', { itemId, delta })),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(id, word, word).map(([c, name, args]) => rawCall(c, name, args)),
  },
  { weight: 2, arbitrary: fc.tuple(id, fc.anything()).map(([c, text]) => rawOutput(c, text)) },
  {
    weight: 1,
    arbitrary: id.map((twin) =>
      note('rawResponseItem/completed', { item: { type: 'reasoning', id: twin } }),
    ),
  },
  { weight: 1, arbitrary: usage.map(rawCompleted) },
  { weight: 1, arbitrary: fc.tuple(usage, usage).map(([total, last]) => tokenUsage(total, last)) },
  { weight: 1, arbitrary: fc.constant(failedAttempt) },
  { weight: 1, arbitrary: word.map((text) => turnFailed(text)) },
  { weight: 1, arbitrary: status.map((each) => turnCompleted(each)) },
)
export const legacyEvent = fc
  .tuple(
    fc.constantFrom(
      'task_started',
      'task_complete',
      'turn_aborted',
      'error',
      'stream_error',
      'agent_message_delta',
      'agent_message_content_delta',
      'agent_message',
      'user_message',
      'agent_reasoning_delta',
      'reasoning_content_delta',
      'agent_reasoning',
      'agent_reasoning_section_break',
      'token_count',
      'item_started',
      'item_completed',
      'exec_command_begin',
      'exec_command_output_delta',
      'exec_command_end',
      'mcp_tool_call_end',
      'patch_apply_end',
      'web_search_begin',
      'raw_response_item',
    ),
    fc.record(
      {
        item_id: id,
        call_id: id,
        delta: word,
        message: word,
        text: word,
        chunk: fc.constantFrom('aGk=', 'w6k=', 'ww==', 'qQ=='),
        item,
        reason: fc.anything(),
        result: fc.anything(),
        turn_id: fc.constantFrom('0', '1'),
      },
      { requiredKeys: ['call_id', 'delta', 'message', 'text', 'chunk', 'item'] },
    ),
  )
  .map(([type, msg]) => legacy(type, msg))
export const responseEvent = fc.record({
  type: fc.constantFrom(
    'response.created',
    'response.output_text.delta',
    'response.completed',
    'error',
  ),
  delta: word,
  response: fc.anything(),
})
export const odd = fc.oneof(
  fc.anything(),
  fc.record({
    method: fc.constantFrom('item/started', 'turn/completed', 'error', 'agentMessageDelta'),
    params: fc.anything(),
  }),
  fc.record({ dir: fc.constantFrom('s2c', 'c2s', 'meta'), msg: fc.anything() }),
)
