import { bearer } from '@turnstream/core/internal/formats/vendor-request'
import {
  answerFault,
  callsOf,
  measurements,
  parallelFault,
  refusalFault,
  STREAM_RULES,
  TOOL_RULES,
  textFault,
  usageFault,
} from './chat-rules.ts'
import { type Check, skipped } from './check.ts'
import {
  type Decoded,
  decoded,
  type Endpoint,
  isStream,
  noCallWarning,
  PROMPTS,
  plainCheck,
  refusalCheck,
  ruleChecks,
  statusCheck,
  streamCheck,
  Tester,
  WEATHER,
} from './exchange.ts'
import type { HttpCall } from './http.ts'

const ask = (content: string) => ({ messages: [{ role: 'user', content }] })
const REPEAT = ask(PROMPTS.repeat)
const { schema: parameters, ...named } = WEATHER
const TOOLS = {
  tools: [{ type: 'function', function: { ...named, parameters } }],
  tool_choice: 'required',
}

/** Tests a Chat Completions server. Requests are sequential, because the server may run one model at a time. */
export async function chatChecks(endpoint: Endpoint, model: string, models: HttpCall) {
  const tester = new Tester(endpoint, model, { path: '/chat/completions', headers: bearer })
  const checks = await modelChecks(tester)
  const { unknownModel, malformed, wrongKey } = await tester.recordRefusals(REPEAT, 'messages')
  return [
    ...checks,
    refusalCheck('unknown model', unknownModel, [404, 400], refusalFault),
    refusalCheck('malformed body', malformed, [400], refusalFault),
    refusalCheck('wrong key', wrongKey, [401], refusalFault),
    await tester.abortCheck(REPEAT, models),
  ]
}

async function modelChecks(tester: Tester): Promise<Check[]> {
  const read = async (about: string, body: object, asksUsage = false) =>
    decoded(await tester.record({ ...tester.stream(about, body), asksUsage }))
  const answer = await tester.firstAnswer(REPEAT)
  const text = await read('a text', REPEAT)
  const withUsage = { ...REPEAT, stream_options: { include_usage: true } }
  const usage = await read('a text with usage', withUsage, true)
  const tool = await read('a tool call', { ...ask(PROMPTS.oneCall), ...TOOLS })
  const parallel = await read('two tool calls', { ...ask(PROMPTS.twoCalls), ...TOOLS })
  return [
    plainCheck('answer', answer, answerFault, 'a chat.completion'),
    statusCheck(text, usage),
    ...ruleChecks([text, usage, tool, parallel].filter(isStream), STREAM_RULES),
    streamCheck('stream text', text, textFault, 'deltas that add up'),
    streamCheck('usage chunk', usage, usageFault, 'one, with choices: []'),
    ...toolChecks(tool, parallel),
    ...(isStream(usage) ? measurements(usage) : []),
  ]
}

function toolChecks(tool: Decoded, parallel: Decoded): Check[] {
  const streams = [tool, parallel].filter(isStream).filter((each) => callsOf(each).length > 0)
  if (streams.length === 0) return [noCallWarning(tool)]
  const name = 'parallel calls'
  const count = isStream(parallel) ? callsOf(parallel).length : 0
  return [
    ...ruleChecks(streams, TOOL_RULES),
    count < 2
      ? skipped(name, 'the model made no parallel calls')
      : streamCheck(name, parallel, parallelFault, `${count}, each with its index`),
  ]
}
