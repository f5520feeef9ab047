import { type Check, ok, skipped, warn } from './check.ts'
import { truncationCheck } from './event-framing.ts'
import {
  answeredFault,
  decoded,
  firstFault,
  isStream,
  noCallWarning,
  PROMPTS,
  type Recorded,
  refusalCheck,
  refusedFault,
  streamCheck,
} from './exchange.ts'
import { faultCheck, measure } from './fault.ts'
import { decodeEvents } from './recording.ts'
import type { ResponsesTester } from './responses-checks.ts'
import {
  answerFault,
  itemFault,
  itemIdFault,
  membersFault,
  outputOf,
  refusalFault,
  responseIn,
  usageFault,
} from './responses-object.ts'
import {
  argumentsFault,
  callsOf,
  finalResponse,
  missingTextFault,
  RESPONSES_RULES,
  type ResponsesStream,
  textTimes,
} from './responses-rules.ts'
import {
  backgroundChecks,
  cancelCheck,
  deleteCheck,
  inputItemsCheck,
  previousCheck,
  resumeChecks,
  retrieveCheck,
  storeCheck,
} from './responses-stored.ts'

/** Everything a server of the Responses API sent. Undefined: not requested, because a prerequisite is missing. */
export type ResponsesRecord = Awaited<ReturnType<ResponsesTester['record']>>

/** The checks of a recorded server. */
export function judgeResponses(record: ResponsesRecord): Check[] {
  const { answer, resume } = record
  const [text, tool] = [record.text, record.tool].map((each) => decoded(each, decodeEvents))
  const whole = resume && decoded(resume.whole, decodeEvents)
  const streams = [text, tool, whole].flatMap((each) => (each && isStream(each) ? [each] : []))
  const said = text && isStream(text) ? text : undefined
  const stored = 'status' in answer ? responseIn(answer) : undefined
  const id = typeof stored?.['id'] === 'string' ? stored['id'] : undefined
  return [
    faultCheck('answer', answeredFault(answer, wholeAnswerFault), 'a completed response'),
    faultCheck('stream status', refusedFault([record.text]), '200'),
    ...RESPONSES_RULES.map(([name, fine, rule]) =>
      faultCheck(name, firstFault(streams, rule), fine),
    ),
    streamCheck('stream deltas', text ?? NOTHING, missingTextFault, 'streamed text'),
    doneCheck(streams),
    ...toolChecks(tool ?? NOTHING),
    retrieveCheck(record.retrieved, said && finalResponse(said)),
    inputItemsCheck(record.inputItems, PROMPTS.repeat),
    previousCheck(record.next, id),
    storeCheck(answer, record.retrieved, record.unstored),
    ...backgroundChecks(record.background, record.polled, record.unstoredBackground),
    ...resumeChecks(resume),
    cancelCheck(record.cancel),
    deleteCheck(record.deletion, id),
    ...refusalChecks(record),
    truncationCheck(record.broken, 'an error when the provider breaks off', hasFailed),
    ...(said ? measurements(said) : []),
  ]
}

const NOTHING = { reason: 'no stream' }

function wholeAnswerFault(answer: { readonly status: number; readonly body: string }) {
  const fault = answerFault(answer)
  const response = responseIn(answer)
  if (fault !== undefined || response === undefined) return fault
  const items = outputOf(response)
  const faults = items.map((item) => itemFault(item) ?? itemIdFault(item))
  return membersFault(response) ?? usageFault(response) ?? faults.find((each) => each !== undefined)
}

/** OpenAI sends no `[DONE]` here, Open Responses requires it, and no client minds. */
function doneCheck(streams: readonly ResponsesStream[]): Check {
  const name = 'stream done'
  if (streams.every(({ hasDone }) => hasDone)) return ok(name, '[DONE] last')
  return warn(
    name,
    'no [DONE], which Open Responses requires',
    'Send data: [DONE] as the last event',
  )
}

function toolChecks(tool: Recorded<ResponsesStream>): Check[] {
  if (!isStream(tool) || callsOf(tool).length === 0) return [noCallWarning(tool)]
  return [faultCheck('tool call', argumentsFault(tool), 'with JSON arguments')]
}

function refusalChecks({ refusals, next }: ResponsesRecord): Check[] {
  const { unknownModel, malformed, unknownId, unknownPrevious, wrongKey } = refusals
  const continues = next !== undefined && 'status' in next && next.status === 200
  return [
    refusalCheck('unknown model', unknownModel, [404, 400], refusalFault),
    refusalCheck('malformed body', malformed, [400], refusalFault),
    refusalCheck('unknown response', unknownId, [404], refusalFault),
    continues
      ? refusalCheck('unknown previous', unknownPrevious, [400, 404], refusalFault)
      : skipped('unknown previous', 'not offered'),
    refusalCheck('wrong key', wrongKey, [401], refusalFault),
  ]
}

function hasFailed(types: readonly unknown[]): boolean {
  const hasError = types.includes('error') || types.includes('response.failed')
  return hasError && !types.includes('response.completed')
}

function measurements(stream: ResponsesStream): Check[] {
  const usage = finalResponse(stream)?.['usage']
  const { output_tokens: tokens } = (usage ?? {}) as Record<string, unknown>
  const { reads, events } = stream
  return measure({
    times: textTimes(stream),
    tokens,
    reads: reads.length,
    events: events.length,
    unit: 'events',
  })
}
