/** What broken servers of the Responses API send, one fault each. */
import type { ResponsesRecord } from '../../../../../conformance/src/endpoint/responses-judge.ts'
import { type Json, withEvents, withHead, withJson, withStatus, withText } from './edits.ts'
import { PLANTED_STREAMS, type Planted } from './planted-response-streams.ts'

function resume(record: ResponsesRecord) {
  if (record.resume === undefined) throw new Error('not resumed')
  return record.resume
}

function cancel(record: ResponsesRecord) {
  if (record.cancel === undefined) throw new Error('not cancelled')
  return record.cancel
}

const HTML = '<html>Not found</html>'

const ANSWERS: readonly Planted[] = [
  ...(
    [
      ['an answer that failed', (json) => (json.status = 'failed')],
      ['an answer without a member', (json) => delete json.tool_choice],
      ['an answer without usage', (json) => (json.usage = null)],
      ['an answer without text', (json) => (json.output = [])],
      ['an answer with ids of another kind', (json) => (json.output.at(-1).id = 'chatcmpl-1')],
      ['parts without annotations', (json) => delete json.output.at(-1).content[0].annotations],
    ] as [string, (json: Json) => void][]
  ).map(([fault, change]) => ({
    fault,
    change: (record: ResponsesRecord) => ({ answer: withJson(record.answer, change) }),
    fails: ['answer'],
  })),
  {
    fault: 'no answer',
    change: ({ answer }) => ({ answer: withStatus(answer, 500) }),
    fails: ['answer'],
  },
]

const STORED: readonly Planted[] = [
  {
    fault: 'another output when it is retrieved',
    change: ({ retrieved }) => ({ retrieved: withJson(retrieved, (json) => (json.output = [])) }),
    fails: ['retrieve'],
  },
  {
    fault: 'store: true from a server that stores nothing',
    change: ({ retrieved }) => ({ retrieved: withStatus(retrieved, 404) }),
    fails: ['store'],
  },
  {
    fault: 'store: true when the request says false',
    change: ({ unstored }) => ({ unstored: withJson(unstored, (json) => (json.store = true)) }),
    fails: ['store'],
  },
  {
    fault: 'input items without the input',
    change: ({ inputItems: it }) => ({
      inputItems: it && { ...it, all: withJson(it.all, (json) => json.data.pop()) },
    }),
    fails: ['input items'],
  },
  {
    fault: 'pages of input items that overlap',
    change: ({ inputItems: it }) => ({ inputItems: it && { ...it, next: it.page } }),
    fails: ['input items'],
  },
  {
    fault: 'input items that end too early',
    change: ({ inputItems: it }) => ({
      inputItems: it && { ...it, page: withJson(it.page, (json) => (json.has_more = false)) },
    }),
    fails: ['input items'],
  },
  {
    fault: 'a previous response that is not named',
    change: ({ next }) => ({ next: withJson(next, (json) => (json.previous_response_id = null)) }),
    fails: ['previous response'],
  },
  {
    fault: 'an answer in the background that comes at once',
    change: ({ background: it }) => ({
      background: withJson(it, (json) => (json.status = 'completed')),
    }),
    fails: ['background'],
  },
  {
    fault: 'an answer in the background that never comes',
    change: ({ polled }) => ({ polled: withJson(polled, (json) => (json.status = 'queued')) }),
    fails: ['background'],
  },
  {
    fault: 'a background response without storage',
    change: ({ background: it }) => ({ unstoredBackground: it }),
    fails: ['background unstored'],
  },
  {
    fault: 'a rest that lacks an event',
    change: (record) => {
      const { whole } = resume(record)
      const left = withEvents(whole, (events) => events.slice(0, 5), false)
      const rest = withEvents(whole, (events) => events.slice(6), false)
      return { resume: { ...resume(record), left, rest } }
    },
    fails: ['resume live'],
  },
  {
    fault: 'a rest that starts again',
    change: (record) => ({ resume: { ...resume(record), rest: resume(record).whole } }),
    fails: ['resume live'],
  },
  {
    fault: 'starting_after that includes the named event',
    change: (record) => {
      const { whole, resumed } = resume(record)
      const wrong = resumed.map(({ after }) => ({
        after,
        recorded: withEvents(whole, (events) => events.slice(after), false),
      }))
      return { resume: { ...resume(record), resumed: wrong } }
    },
    fails: ['resume'],
  },
  {
    fault: 'a number that cannot be resumed after',
    change: (record) => {
      const resumed = resume(record).resumed.map((each, at) =>
        at === 3 ? { ...each, recorded: withHead(each.recorded, { status: 500 }) } : each,
      )
      return { resume: { ...resume(record), resumed } }
    },
    fails: ['resume'],
  },
  {
    fault: 'another stream after each resume',
    change: (record) => {
      const { resumed } = resume(record)
      const wrong = resumed.map(({ after, recorded }) => ({
        after,
        recorded: withText(recorded, (sse) => sse.replaceAll('msg_', 'msg_again')),
      }))
      return { resume: { ...resume(record), resumed: wrong } }
    },
    fails: ['resume'],
  },
  {
    fault: 'a second cancel that is refused',
    change: (record) => ({
      cancel: { ...cancel(record), second: withStatus(cancel(record).second, 409) },
    }),
    fails: ['cancel'],
  },
  {
    fault: 'a cancelled response that completes',
    change: (record) => ({
      cancel: {
        ...cancel(record),
        retrieved: withJson(cancel(record).retrieved, (json) => (json.status = 'completed')),
      },
    }),
    fails: ['cancel'],
  },
  {
    fault: 'a cancelled response with two ends',
    change: (record) => ({
      cancel: {
        ...cancel(record),
        replay: withEvents(cancel(record).replay, (events) => [...events, ...events.slice(-1)]),
      },
    }),
    fails: ['cancel'],
  },
  {
    fault: 'a response that is there after it was deleted',
    change: ({ deletion: it, retrieved }) => ({
      deletion: it && { ...it, retrieved: retrieved ?? it.retrieved },
    }),
    fails: ['delete'],
  },
  {
    fault: 'a deletion that does not say so',
    change: ({ deletion: it }) => ({
      deletion: it && { ...it, deleted: withJson(it.deleted, (json) => delete json.deleted) },
    }),
    fails: ['delete'],
  },
]

const REFUSALS: readonly Planted[] = (
  [
    ['unknownModel', 'unknown model', 500],
    ['malformed', 'malformed body', 500],
    ['unknownId', 'unknown response', 200],
    ['unknownPrevious', 'unknown previous', 200],
    ['wrongKey', 'wrong key', 200],
  ] as const
).flatMap(
  ([field, check, status]) =>
    [
      {
        fault: `${check} with status ${status}`,
        change: ({ refusals }) => ({
          refusals: { ...refusals, [field]: withStatus(refusals[field], status) },
        }),
        fails: [check],
      },
      {
        fault: `${check} with a page`,
        change: ({ refusals }) => ({
          refusals: { ...refusals, [field]: withStatus(refusals[field], 400, HTML) },
        }),
        fails: [check],
      },
      {
        fault: `${check} with an error that lacks a member`,
        change: ({ refusals }) => ({
          refusals: {
            ...refusals,
            [field]: withJson(refusals[field], (json) => delete json.error.param),
          },
        }),
        fails: [check],
      },
    ] satisfies Planted[],
)

const BROKEN: readonly Planted[] = [
  {
    fault: 'a provider that breaks off, as success',
    change: (record) => ({ broken: record.text }),
    fails: ['truncation'],
  },
  {
    fault: 'a provider that breaks off, in silence',
    change: ({ broken }) => ({
      broken: broken && withEvents(broken, (events) => events.slice(0, 6)),
    }),
    fails: ['truncation'],
  },
]

export const PLANTED_RESPONSES = [...PLANTED_STREAMS, ...ANSWERS, ...STORED, ...REFUSALS, ...BROKEN]

const NOT_FOUND = 404

/** What a server need not offer, and what the checks of it say then. */
export const NOT_OFFERED: readonly (Omit<Planted, 'fails'> & {
  readonly skips: readonly string[]
})[] = [
  {
    fault: 'a server without storage',
    change: ({ answer, retrieved, inputItems: it, next, deletion }) => ({
      answer: withJson(answer, (json) => (json.store = false)),
      retrieved: withStatus(retrieved, NOT_FOUND),
      inputItems: it && { ...it, all: withStatus(it.all, NOT_FOUND) },
      next: withStatus(next, NOT_FOUND),
      deletion: deletion && { ...deletion, deleted: withStatus(deletion.deleted, 405) },
    }),
    skips: ['retrieve', 'input items', 'previous response', 'delete', 'unknown previous'],
  },
  {
    fault: 'a server without background',
    change: ({ background, resume: it }) => ({
      background: withStatus(background, 400),
      polled: undefined,
      unstoredBackground: undefined,
      cancel: undefined,
      resume: it && { ...it, whole: withHead(it.whole, { status: 400 }) },
    }),
    skips: ['background', 'resume live', 'resume', 'cancel'],
  },
  {
    fault: 'a server that ignores background',
    change: ({ background }) => ({
      background: withJson(background, (json) => (json.background = false)),
    }),
    skips: ['background'],
  },
  {
    fault: 'a server without cancel',
    change: (record) => ({
      cancel: { ...cancel(record), first: withStatus(cancel(record).first, NOT_FOUND) },
    }),
    skips: ['cancel'],
  },
  {
    fault: 'a server whose provider cannot be made to break off',
    change: () => ({ broken: undefined }),
    skips: ['truncation'],
  },
]
