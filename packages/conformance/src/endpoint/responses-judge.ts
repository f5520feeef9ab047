import { type Check, ok, skipped, warn } from './check.ts'
import {
  decoded,
  isStream,
  noCallWarning,
  PROMPTS,
  plainCheck,
  refusalCheck,
  ruleChecks,
  statusCheck,
  streamCheck,
  truncationCheck,
} from './exchange.ts'
import { faultCheck, jsonIn } from './fault.ts'
import type { SseRecording } from './recording.ts'
import type { ResponsesTester } from './responses-checks.ts'
import { answerFault, refusalFault } from './responses-object.ts'
import {
  argumentsFault,
  callsOf,
  finalResponse,
  measurements,
  missingTextFault,
  RESPONSES_RULES,
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
export type ResponsesRecord = Awaited<ReturnType<ResponsesTester['recordAll']>>

export function judgeResponses(record: ResponsesRecord): Check[] {
  const { answer, resume } = record
  const text = decoded(record.text)
  const tool = decoded(record.tool)
  const resumed = resume ? [decoded(resume.whole)] : []
  const streams = [text, tool, ...resumed].filter(isStream)
  const id = jsonIn(answer)?.['id']
  return [
    plainCheck('answer', answer, answerFault, 'a completed response'),
    statusCheck(record.text),
    ...ruleChecks(streams, RESPONSES_RULES),
    streamCheck('stream deltas', text, missingTextFault, 'streamed text'),
    doneCheck(streams),
    isStream(tool) && callsOf(tool).length > 0
      ? faultCheck('tool call', argumentsFault(tool), 'with JSON arguments')
      : noCallWarning(tool),
    retrieveCheck(record.retrieved, isStream(text) ? finalResponse(text) : undefined),
    inputItemsCheck(record.inputItems, PROMPTS.repeat),
    previousCheck(record.next, id),
    storeCheck(answer, record.retrieved, record.unstored),
    ...backgroundChecks(record.background, record.polled, record.unstoredBackground),
    ...resumeChecks(resume),
    cancelCheck(record.cancel),
    deleteCheck(record.deletion, id),
    ...refusalChecks(record),
    truncationCheck(record.broken, 'an error when the provider breaks off', (types) => {
      const hasError = types.includes('error') || types.includes('response.failed')
      return hasError && !types.includes('response.completed')
    }),
    ...(isStream(text) ? measurements(text) : []),
  ]
}

/** OpenAI sends no `[DONE]` here, Open Responses requires it, and no client minds. */
function doneCheck(streams: readonly SseRecording[]): Check {
  const name = 'stream done'
  if (streams.every(({ hasDone }) => hasDone)) return ok(name, '[DONE] last')
  const found = 'no [DONE], which Open Responses requires'
  return warn(name, found, 'Send data: [DONE] as the last event')
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
