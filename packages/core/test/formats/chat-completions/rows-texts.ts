/** Fixtures of text and reasoning, and what they come to. */
import type { Row } from '../outcome.ts'

export const textRows: Row[] = [
  [
    'text',
    'text is one message',
    { items: ['message Hello, wörld 🌍.'], end: 'complete stop (stop)' },
  ],
  [
    'reasoning-content',
    'reasoning_content is reasoning, and text closes it',
    { items: ['reasoning The user greets.', 'message Hi there'], end: 'complete stop (stop)' },
  ],
  [
    'reasoning-between-texts',
    'reasoning and text take turns as items of their own',
    {
      items: ['reasoning First.', 'message A ', 'reasoning Second.', 'message B'],
      end: 'complete stop (stop)',
    },
  ],
  [
    'reasoning-openrouter',
    'reasoning under its other name is reasoning',
    { items: ['reasoning Let me think.', 'message Done.'], end: 'complete stop (stop)' },
  ],
  [
    'reasoning-encrypted',
    'encrypted reasoning is an item without words',
    { items: ['reasoning ', 'message Yes.'], end: 'complete stop (stop)' },
  ],
  [
    'refusal',
    'a refusal is a message, and the reason to end',
    { items: ['message I cannot help with that.'], end: 'complete refusal (stop)' },
  ],
  [
    'content-parts',
    'content may come in parts, thinking among them',
    { items: ['reasoning Hmm. Right.', 'message It is four.'], end: 'complete stop (stop)' },
  ],
  [
    'annotations',
    'annotations add nothing to the text',
    { items: ['message See [1].'], end: 'complete stop (stop)' },
  ],
  [
    'filter-results-first',
    'a chunk before the role chunk says nothing',
    { items: ['message Hi.'], end: 'complete stop (stop)' },
  ],
  [
    'second-choice-is-ignored',
    'only the first choice counts',
    { items: ['message First'], end: 'complete stop (stop)' },
  ],
  [
    'id-in-every-chunk',
    'a server that makes up an id for every chunk has one response',
    { items: ['message ABC'], end: 'complete stop (stop)' },
  ],
  [
    'unknown-objects',
    'what is unknown is passed over',
    { items: ['message Hi'], end: 'complete stop (stop)' },
  ],
]
