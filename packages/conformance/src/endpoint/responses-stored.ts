import { isDeepStrictEqual } from 'node:util'
import { type Check, skipped } from './check.ts'
import { type Answered, answeredFault, decoded, isStream, refusalIn } from './exchange.ts'
import {
  came,
  expecting,
  type Fault,
  type Finding,
  faultCheck,
  firstOf,
  isText,
  type Json,
  jsonIn,
  okFault,
  type Rule,
  shown,
} from './fault.ts'
import type { Answer } from './http.ts'
import { recordsIn } from './recording.ts'
import type { ResponsesRecord } from './responses-judge.ts'
import { isNotOffered, refusalFault } from './responses-object.ts'
import { comparable, finalResponse, numberOf, terminalsOf } from './responses-rules.ts'

/** Checks of what a server does with a response after it was created. The standard makes all of it optional. */

const NOT_OFFERED = 'not offered'

type Found = Answered | undefined

function optionalCheck(name: string, answer: Found, rule: Rule<Answer>, fine: string): Check {
  if (answer === undefined) return skipped(name, 'not requested')
  if ('status' in answer && isNotOffered(answer)) return skipped(name, NOT_OFFERED)
  return faultCheck(name, answeredFault(answer, rule), fine)
}

const COMPARED = ['id', 'status', 'output', 'usage'] as const

export function retrieveCheck(answer: Found, response: Json | undefined): Check {
  if (response === undefined) return skipped('retrieve', 'no complete stream')
  const rule: Rule<Answer> = (each) => {
    const retrieved = jsonIn(each)
    const other = COMPARED.find((name) => !isDeepStrictEqual(retrieved?.[name], response[name]))
    if (okFault(each) !== undefined || other === undefined) return okFault(each)
    const expected = `the ${other} that was streamed`
    return { expected, came: `${other}: ${shown(retrieved?.[other])}` }
  }
  return optionalCheck('retrieve', answer, rule, 'the response that was streamed')
}

export function inputItemsCheck(pages: ResponsesRecord['inputItems'], prompt: string): Check {
  const name = 'input items'
  if (pages === undefined) return skipped(name, 'not requested')
  const { all, page, next } = pages
  const pagesFault = expecting<Answer>(
    'pages that together are the list, newest first',
    (first) => {
      const ids = idsOf(first).toReversed()
      if ('reason' in page || 'reason' in next) return 'no answer'
      const isSplit =
        isDeepStrictEqual(idsOf(page), ids.slice(0, 2)) &&
        isDeepStrictEqual(idsOf(next), ids.slice(2)) &&
        jsonIn(page)?.['has_more'] === ids.length > 2
      return isSplit ? undefined : `${shown(page.body)}, then ${shown(next.body)}`
    },
  )
  const rule: Rule<Answer> = (first) => listFault(first, prompt) ?? pagesFault(first)
  return optionalCheck(name, all, rule, 'a list, in pages and both orders')
}

const idsOf = (answer: Answer): unknown[] => recordsIn(jsonIn(answer)?.['data']).map(({ id }) => id)

function listFault(answer: Answer, prompt: string): Fault | undefined {
  const expected = '{"object":"list","data","first_id","last_id","has_more"} with the input'
  const { object, data, first_id: first, last_id: last, has_more: hasMore } = jsonIn(answer) ?? {}
  const ids = idsOf(answer)
  const isList =
    answer.status === 200 &&
    object === 'list' &&
    hasMore === false &&
    ids.length > 0 &&
    ids.every(isText) &&
    first === ids[0] &&
    last === ids.at(-1) &&
    JSON.stringify(data).includes(JSON.stringify(prompt).slice(1, -1))
  return isList ? undefined : { expected, came: came(answer) }
}

export function previousCheck(answer: Found, previousId: unknown): Check {
  const name = 'previous response'
  if (answer !== undefined && 'status' in answer && answer.status === 400) {
    return skipped(name, `${NOT_OFFERED}: ${shown(answer.body)}`)
  }
  const rule: Rule<Answer> = (each) => {
    const { previous_response_id, status } = jsonIn(each) ?? {}
    const isContinued = previous_response_id === previousId && status === 'completed'
    if (okFault(each) !== undefined || isContinued) return okFault(each)
    const expected = 'a completed response with previous_response_id'
    return { expected, came: shown({ status, previous_response_id }) }
  }
  return optionalCheck(name, answer, rule, 'continued')
}

/** Checks that `store` matches whether a response can be retrieved. */
export function storeCheck(stored: Answered, retrieved: Found, unstored: Answered): Check {
  const name = 'store'
  const fine = 'as the request says'
  if ('reason' in stored || 'reason' in unstored) return skipped(name, 'no answer')
  const isStored = retrieved !== undefined && 'status' in retrieved && retrieved.status === 200
  if (jsonIn(stored)?.['store'] === true && !isStored) {
    const expected = 'store: false from a server that stores nothing'
    return faultCheck(name, { expected, came: 'store: true, but it cannot be retrieved' }, fine)
  }
  const store = jsonIn(unstored)?.['store']
  const other = {
    expected: 'store: false when the request says so',
    came: `store: ${shown(store)}`,
  }
  return faultCheck(name, okFault(unstored) ?? (store === false ? undefined : other), fine)
}

export function offersBackground(answer: Answered): boolean {
  return 'status' in answer && answer.status === 200 && jsonIn(answer)?.['background'] === true
}

const ENDED = new Set<unknown>(['completed', 'incomplete', 'failed', 'cancelled'])

export function backgroundChecks(answer: Answered, polled: Found, unstored: Found) {
  const name = 'background'
  if (!offersBackground(answer)) {
    const isRefused = 'status' in answer && answer.status < 500
    if (isRefused) return [skipped(name, NOT_OFFERED)]
    return [faultCheck(name, answeredFault(answer, okFault), '')]
  }
  const { id, status } = jsonIn(answer) ?? {}
  const expected = 'queued or in_progress at once, completed when polled'
  const last = jsonIn(polled)
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
  const before = decoded(left)
  const after = decoded(rest)
  const all = decoded(whole)
  if (!isStream(before) || !isStream(after) || !isStream(all)) {
    const refused = [left, rest, whole].find((each) => !isStream(each)) ?? whole
    const fault = { expected: 'status 200', came: refusalIn(refused) }
    return names.map((name) => faultCheck(name, fault, ''))
  }
  const events = comparable(all)
  const joined = [...comparable(before), ...comparable(after)]
  const expected = 'the events before and after a disconnect add up to the stream'
  const fine = `${comparable(before).length} events, then ${comparable(after).length}`
  const resumedFault = firstOf(resumed, ({ after: number, recorded }) => {
    const expected = `exactly the events after ${number}`
    const stream = decoded(recorded)
    if (!isStream(stream)) return { expected, came: refusalIn(recorded) }
    const wanted = events.filter((event) => numberOf(event) > number)
    return differenceOf(comparable(stream), wanted, expected)
  })
  return [
    faultCheck('resume live', differenceOf(joined, events, expected), fine),
    faultCheck('resume', resumedFault, `after ${resumed.length} numbers`),
  ]
}

function differenceOf(came: readonly Json[], wanted: readonly Json[], expected: string) {
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
  const states = answers.map((each) => ('status' in each ? jsonIn(each)?.['status'] : 'none'))
  const [state] = states
  const answersFault = expecting(
    'the cancelled response, also the second time and when retrieved',
    () => {
      const refused = answers.find((each) => 'reason' in each || each.status !== 200)
      if (refused && 'status' in refused) return came(refused)
      const isSame = ENDED.has(state) && new Set(states).size === 1
      return isSame && !refused ? undefined : states.map(shown).join(', ')
    },
  )
  const replayFault = expecting(`one terminal event, with status ${shown(state)}`, (): Finding => {
    const stream = decoded(replay)
    if (!isStream(stream)) return undefined
    const terminals = terminalsOf(stream)
    if (terminals.length !== 1) return `${terminals.length} of them`
    const status = finalResponse(stream)?.['status']
    return status === state ? undefined : `status: ${shown(status)}`
  })
  const rule: Rule<Answer> = (each) => answersFault(each) ?? replayFault(each)
  return optionalCheck(name, first, rule, `${shown(state)}, also the second time, with one end`)
}

export function deleteCheck(record: ResponsesRecord['deletion'], id: unknown): Check {
  const rule: Rule<Answer> = (answer) => {
    const { id: deletedId, deleted } = jsonIn(answer) ?? {}
    if (answer.status !== 200 || deletedId !== id || deleted !== true) {
      return { expected: '{"id","object":"response","deleted":true}', came: came(answer) }
    }
    const after = record?.retrieved
    return after && 'status' in after ? refusalFault(after, [404]) : undefined
  }
  return optionalCheck('delete', record?.deleted, rule, 'gone afterwards')
}
