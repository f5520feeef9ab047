/** Whatever a vendor sends, OpenAI clients get over HTTP what the dialect makes of it. */
import { describe, expect, test } from 'vitest'
import { isRecord } from '../../../../core/src/protocol/json.ts'
import { toChatStream } from '../../../../core/test/formats/golden-suite.ts'
import { ASK, dataOf, fixtureNames, fixtures, post, stage, type VendorName } from './stage.ts'

/** The first response of a fixture: some hold several, and a turn asks for one. */
async function goldenOf(vendor: VendorName, name: string): Promise<string[]> {
  const frames = dataOf(await toChatStream(vendor, name))
  return frames.slice(0, frames.indexOf('[DONE]') + 1)
}

// oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
type Chunk = any

/** Without what differs from turn to turn. */
function comparable(frames: readonly string[]): Chunk[] {
  return frames.map((data) => {
    if (data === '[DONE]') return data
    // An id that we made for a call is made of that of its run.
    const json = data.replaceAll(/"call_(?:run|[0-9a-f]{24})_/g, '"call_<run>_')
    const { id: _id, created: _created, model: _model, ...rest } = JSON.parse(json)
    return rest
  })
}

/** The one text that the chunks come to, and the calls. */
function heard(frames: readonly Chunk[]) {
  const message = { content: '', refusal: '', reasoning: '', calls: [] as string[] }
  for (const frame of frames) {
    const delta = frame.choices?.[0]?.delta
    message.content += delta?.content ?? ''
    message.refusal += delta?.refusal ?? ''
    message.reasoning += delta?.reasoning_content ?? ''
    for (const { index, function: called } of delta?.tool_calls ?? []) {
      message.calls[index] = (message.calls[index] ?? '') + called.arguments
    }
  }
  return message
}

/** What was streamed of these was taken back later, which a whole answer need not say. */
const UNSAID = new Set([
  'openai-responses/attempt-reset',
  'openai-responses/refusal-after-text',
  'anthropic-messages/attempt-reset',
])

const ROWS = (['openai-responses', 'anthropic-messages', 'openai-chat', 'gemini'] as const).flatMap(
  (vendor) => fixtureNames(vendor).map((name) => [vendor, name] as const),
)

/** One of each kind. */
const QUICK = new Set([
  'text',
  'tool-call',
  'refusal',
  'error-first',
  'truncated-text',
  'function-call',
])

describe('the stream of', () => {
  test.each(ROWS.filter(([, name]) => QUICK.has(name)))('%s/%s', checkAnswers)

  test.each(ROWS.filter(([, name]) => !QUICK.has(name)))('%s/%s', { tags: ['slow'] }, checkAnswers)

  async function checkAnswers(vendor: VendorName, name: string): Promise<void> {
    const { server } = await stage(vendor, fixtures(vendor, name))
    const golden = comparable(await goldenOf(vendor, name))
    const body = { ...ASK, stream: true, stream_options: { include_usage: true } }
    const streamed = await post(server, body)
    const whole = await post(server, ASK)
    const last = golden.at(-2)
    if (isRecord(last) && 'error' in last) {
      const { error } = last as { error: { code: string } }
      const isSilent = golden.length === 3
      // A turn that fails before it says anything is told by a status, and a whole answer always.
      const told = isSilent ? JSON.parse(streamed.text) : comparable(dataOf(streamed.text)).at(-2)
      expect(told.error.message).not.toBe('')
      expect(streamed.status >= 400).toBe(isSilent)
      if (!UNSAID.has(`${vendor}/${name}`)) expect(whole.status).toBeGreaterThanOrEqual(400)
      if (!isSilent) expect(comparable(dataOf(streamed.text))).toEqual(golden)
      else expect(told.error).toEqual(JSON.parse(whole.text).error)
      expect(error.code).not.toBe('')
      return
    }
    expect(streamed.status).toBe(200)
    expect(comparable(dataOf(streamed.text))).toEqual(golden)
    if (UNSAID.has(`${vendor}/${name}`)) return
    const { choices, usage } = JSON.parse(whole.text)
    const { message, finish_reason } = choices[0]
    const said = heard(golden)
    expect({
      content: message.content ?? '',
      refusal: message.refusal ?? '',
      reasoning: message.reasoning_content ?? '',
      calls: (message.tool_calls ?? []).map((call: Chunk) => call.function.arguments),
    }).toEqual(said)
    const finish = golden.flatMap((frame: Chunk) => frame.choices?.[0]?.finish_reason ?? [])
    expect([finish_reason]).toEqual(finish)
    expect(usage).toEqual(golden.find((frame) => frame.usage)?.usage)
  }
})
