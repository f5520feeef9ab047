import { describe, expect, test } from 'vitest'
import { fixtureEvents, responsesOf } from '../outcome.ts'
import { chunk, stop, text, translate } from './chunks.ts'

/** What the one response keeps of the provider, item by item. */
function kept(fixture: string): unknown[] {
  const payloads = translate(fixtureEvents('openai-chat', fixture), { providerId: 'acme' })
  const [response] = responsesOf(payloads)
  return response?.output_items.map((item) => item.provider_metadata?.['acme']) ?? []
}

describe('the metadata of an item', () => {
  const rows: [fixture: string, expected: unknown[]][] = [
    [
      'reasoning-content',
      [{ completion_id: 'ds-1', field: 'reasoning_content' }, { completion_id: 'ds-1' }],
    ],
    [
      'reasoning-openrouter',
      [
        {
          completion_id: 'gen-1',
          field: 'reasoning',
          reasoning_details: [
            {
              type: 'reasoning.text',
              format: 'v1',
              index: 0,
              text: 'Let me think.',
              signature: 'c2ln',
            },
          ],
        },
        { completion_id: 'gen-1' },
      ],
    ],
    [
      'reasoning-encrypted',
      [
        {
          completion_id: 'gen-1',
          reasoning_details: [
            { type: 'reasoning.encrypted', data: 'b3BhcXVl', id: 'rs_1', index: 0 },
          ],
        },
        { completion_id: 'gen-1' },
      ],
    ],
    ['refusal', [{ completion_id: 'chatcmpl-A1', refusal: true }]],
    ['custom-tool', [{ completion_id: 'chatcmpl-A1', type: 'custom' }]],
    [
      'call-with-signature',
      [{ completion_id: 'gem-1', extra_content: { google: { thought_signature: 'c2lnbmVk' } } }],
    ],
  ]

  test.each(rows)('keeps what the server needs back: %s', (fixture, expected) => {
    expect(kept(fixture)).toEqual(expected)
  })

  test('keeps annotations, images and the signature of a message', () => {
    const events = [
      text('See'),
      chunk({ annotations: [{ n: 1 }] }),
      chunk({ annotations: [{ n: 2 }], images: ['i'], extra_content: { google: { a: 1 } } }),
      stop,
    ]
    const [response] = responsesOf(translate(events))
    expect(response?.output_items[0]?.provider_metadata).toEqual({
      provider: {
        completion_id: 'c1',
        annotations: [{ n: 1 }, { n: 2 }],
        images: ['i'],
        extra_content: { google: { a: 1 } },
      },
    })
  })
})
