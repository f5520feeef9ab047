import { isDeepStrictEqual } from 'node:util'
import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { type Check, skipped } from './check.ts'
import { type Answered, decoded, isStream, type Recorded, refusalIn } from './exchange.ts'
import { type Fault, faultCheck, type Json, shown } from './fault.ts'
import type { Answer } from './http.ts'
import { decodeEvents, recordsIn } from './recording.ts'
import type { ResponsesRecord } from './responses-judge.ts'
import { isNotOffered, refusalFault, responseIn } from './responses-object.ts'
import { comparable, finalResponse, numberOf, terminalsOf } from './responses-rules.ts'

/** Checks of what a server does with a response after it was created. The standard makes all of it optional. */

const NOT_OFFERED = 'not offered'

type Found = Answered | undefined

/** Checks an answer of an optional route. */
function optionalCheck(
  name: string,
  answer: Found,
  rule: (answer: Answer) => Fault | undefined,
  fine: string,
): Check {
  if (answer === undefined) return skipped(name, 'not requested')
  if ('reason' in answer)
    return faultCheck(name, { expected: 'an answer', came: answer.reason }, '')
  if (isNotOffered(answer)) return skipped(name, NOT_OFFERED)
  return faultCheck(name, rule(answer), fine)
}

function okFault({ status, body }: Answer): Fault | undefined {
  return status === 200
    ? undefined
    : { expected: 'status 200', came: `status ${status}: ${shown(body)}` }
}

const COMPARED = ['id', 'status', 'output', 'usage'] as const

/** A response must be the same when it is retrieved. */
export function retrieveCheck(answer: Found, response: Json | undefined): Check {
  if (response === undefined) return skipped('retrieve', 'no complete stream')
  return optionalCheck(
    'retrieve',
    answer,
    (each) => {
      const retrieved = responseIn(each)
      const other = COMPARED.find((name) => !isDeepStrictEqual(retrieved?.[name], response[name]))
      if (okFault(each) !== undefined || other === undefined) return okFault(each)
      return {
        expected: `the ${other} that was streamed`,
        came: `${other}: ${shown(retrieved?.[other])}`,
      }
    },
    'the response that was streamed',
  )
}

export function inputItemsCheck(pages: ResponsesRecord['inputItems'], prompt: string): Check {
  const name = 'input items'
  if (pages === undefined) return skipped(name, 'not requested')
  const { all, page, next } = pages
  const fine = 'a list, in pages and both orders'
  return optionalCheck(name, all, (first) => listFault(first, prompt) ?? pagesFault(first), fine)

  function pagesFault(first: Answer): Fault | undefined {
    const ids = idsOf(first).toReversed()
    const expected = 'pages that together are the list, newest first'
    if ('reason' in page || 'reason' in next) return { expected, came: 'no answer' }
    const isSplit =
      isDeepStrictEqual(idsOf(page), ids.slice(0, 2)) &&
      isDeepStrictEqual(idsOf(next), ids.slice(2)) &&
      responseIn(page)?.['has_more'] === ids.length > 2
    return isSplit ? undefined : { expected, came: `${shown(page.body)}, then ${shown(next.body)}` }
  }
}

function idsOf(answer: Answer): unknown[] {
  return recordsIn(responseIn(answer)?.['data']).map(({ id }) => id)
}

function listFault(answer: Answer, prompt: string): Fault | undefined {
  const expected = '{"object":"list","data","first_id","last_id","has_more"} with the input'
  const list = parseJsonObject(answer.body)
  const ids = idsOf(answer)
  const isList =
    answer.status === 200 &&
    list?.['object'] === 'list' &&
    list['has_more'] === false &&
    ids.length > 0 &&
    ids.every((id) => typeof id === 'string') &&
    list['first_id'] === ids[0] &&
    list['last_id'] === ids.at(-1) &&
    JSON.stringify(list['data']).includes(JSON.stringify(prompt).slice(1, -1))
  return isList ? undefined : { expected, came: `status ${answer.status}: ${shown(answer.body)}` }
}

/** A response that continues another. */
export function previousCheck(answer: Found, previousId: string | undefined): Check {
  const name = 'previous response'
  if (answer !== undefined && 'status' in answer && answer.status === 400) {
    return skipped(name, `${NOT_OFFERED}: ${shown(answer.body)}`)
  }
  return optionalCheck(
    name,
    answer,
    (each) => {
      const { previous_response_id: came, status } = responseIn(each) ?? {}
      if (okFault(each) !== undefined) return okFault(each)
      return came === previousId && status === 'completed'
        ? undefined
        : {
            expected: 'a completed response with previous_response_id',
            came: shown({ status, previous_response_id: came }),
          }
    },
    'continued',
  )
}

/** Checks that `store` matches whether a response can be retrieved. */
export function storeCheck(stored: Answered, retrieved: Found, unstored: Answered): Check {
  const name = 'store'
  const fine = 'as the request says'
  if ('reason' in stored || 'reason' in unstored) return skipped(name, 'no answer')
  const isKept = retrieved !== undefined && 'status' in retrieved && retrieved.status === 200
  if (responseIn(stored)?.['store'] === true && !isKept) {
    const expected = 'store: false from a server that stores nothing'
    return faultCheck(name, { expected, came: 'store: true, but it cannot be retrieved' }, fine)
  }
  if (unstored.status !== 200) return faultCheck(name, okFault(unstored), fine)
  const { store } = responseIn(unstored) ?? {}
  const expected = 'store: false when the request says so'
  return faultCheck(
    name,
    store === false ? undefined : { expected, came: `store: ${shown(store)}` },
    fine,
  )
}

/** Whether a server runs responses in the background. */
export function offersBackground(answer: Answered): boolean {
  return 'status' in answer && answer.status === 200 && responseIn(answer)?.['background'] === true
}

const ENDED = new Set<unknown>(['completed', 'incomplete', 'failed', 'cancelled'])

export function backgroundChecks(
  answer: Answered,
  polled: Found,
  unstored: Found,
): readonly Check[] {
  const name = 'background'
  if ('reason' in answer)
    return [faultCheck(name, { expected: 'an answer', came: answer.reason }, '')]
  if (!offersBackground(answer)) {
    return [
      answer.status < 500 ? skipped(name, NOT_OFFERED) : faultCheck(name, okFault(answer), ''),
    ]
  }
  const { id, status } = responseIn(answer) ?? {}
  const expected = 'queued or in_progress at once, completed when polled'
  const last = polled !== undefined && 'status' in polled ? responseIn(polled) : undefined
  const isFine =
    (status === 'queued' || status === 'in_progress') &&
    last?.['status'] === 'completed' &&
    last['id'] === id
  const came = `${shown(status)}, then ${shown(last?.['status'])}`
  return [
    faultCheck(name, isFine ? undefined : { expected, came }, `${shown(status)}, then completed`),
    optionalCheck('background unstored', unstored, (each) => refusalFault(each, [400]), 'refused'),
  ]
}

export function resumeChecks(resume: ResponsesRecord['resume']): Check[] {
  const names = ['resume live', 'resume']
  if (resume === undefined) return names.map((name) => skipped(name, 'no stream'))
  const { left, rest, whole, resumed } = resume
  if (!('reason' in whole) && whole.status >= 400 && whole.status !== 429 && whole.status < 500) {
    return names.map((name) => skipped(name, NOT_OFFERED))
  }
  const [before, after, all] = [left, rest, whole].map((each) => decoded(each, decodeEvents))
  if (!before || !after || !all || !isStream(before) || !isStream(after) || !isStream(all)) {
    const refused = [left, rest, whole].find((each) => !isStream(each)) ?? whole
    const fault = { expected: 'status 200', came: refusalIn(refused) }
    return names.map((name) => faultCheck(name, fault, ''))
  }
  const events = comparable(all)
  const joined = [...comparable(before), ...comparable(after)]
  const expected = 'the events before and after a disconnect add up to the stream'
  const fine = `${comparable(before).length} events, then ${comparable(after).length}`
  return [
    faultCheck('resume live', differenceOf(joined, events, expected), fine),
    faultCheck('resume', resumedFault(resumed, events), `after ${resumed.length} numbers`),
  ]
}

function resumedFault(
  resumed: NonNullable<ResponsesRecord['resume']>['resumed'],
  events: readonly Json[],
): Fault | undefined {
  for (const { after, recorded } of resumed) {
    const expected = `exactly the events after ${after}`
    const stream = decoded(recorded, decodeEvents)
    if (!isStream(stream)) return { expected, came: refusalIn(recorded) }
    const wanted = events.filter((event) => numberOf(event) > after)
    const fault = differenceOf(comparable(stream), wanted, expected)
    if (fault !== undefined) return fault
  }
  return undefined
}

function differenceOf(
  came: readonly Json[],
  wanted: readonly Json[],
  expected: string,
): Fault | undefined {
  const at = wanted.findIndex((event, index) => !isDeepStrictEqual(event, came[index]))
  if (at !== -1) {
    return { expected, came: `${shown(came[at])} in place of ${shown(wanted[at])}` }
  }
  if (came.length <= wanted.length) return undefined
  return { expected, came: `${came.length - wanted.length} more: ${shown(came[wanted.length])}` }
}

export function cancelCheck(cancel: ResponsesRecord['cancel']): Check {
  const name = 'cancel'
  if (cancel === undefined) return skipped(name, 'needs background')
  const { first, second, retrieved, replay } = cancel
  const answers = [first, second, retrieved]
  const states = answers.map((each) => ('status' in each ? responseIn(each)?.['status'] : 'none'))
  return optionalCheck(
    name,
    first,
    () => {
      const refused = answers.find((each) => 'reason' in each || each.status !== 200)
      const came =
        refused === undefined || 'reason' in refused
          ? states.map(shown).join(', ')
          : `status ${refused.status}: ${shown(refused.body)}`
      const isSame = ENDED.has(states[0]) && new Set(states).size === 1
      if (refused !== undefined || !isSame) {
        return { expected: 'the cancelled response, also the second time and when retrieved', came }
      }
      return replayFault(replay, states[0])
    },
    `${shown(states[0])}, also the second time, with one end`,
  )
}

function replayFault(replay: Recorded, status: unknown): Fault | undefined {
  const stream = decoded(replay, decodeEvents)
  if (!isStream(stream)) return undefined
  const expected = `one terminal event, with status ${shown(status)}`
  const terminals = terminalsOf(stream)
  if (terminals.length !== 1) return { expected, came: `${terminals.length} of them` }
  const { status: came } = finalResponse(stream) ?? {}
  return came === status ? undefined : { expected, came: `status: ${shown(came)}` }
}

export function deleteCheck(record: ResponsesRecord['deletion'], id: string | undefined): Check {
  return optionalCheck(
    'delete',
    record?.deleted,
    (answer) => {
      const { id: came, deleted } = responseIn(answer) ?? {}
      if (answer.status !== 200 || came !== id || deleted !== true) {
        const expected = '{"id","object":"response","deleted":true}'
        return { expected, came: `status ${answer.status}: ${shown(answer.body)}` }
      }
      const after = record?.retrieved
      if (after === undefined || 'reason' in after) return undefined
      return refusalFault(after, [404])
    },
    'gone afterwards',
  )
}
