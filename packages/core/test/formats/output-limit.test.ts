import { expect, test } from 'vitest'
import { request, run } from '../../../turnstream/test/providers/http-support.ts'
import { VENDORS } from './vendors.ts'

test.each(Object.entries(VENDORS))(
  '%s is asked for no more output than its provider allows',
  async (_name, { create }) => {
    const bodies: string[] = []
    const fetch = async (_url: unknown, init?: RequestInit) => {
      bodies.push(typeof init?.body === 'string' ? init.body : '')
      return new Response('{}', { status: 400 })
    }
    const provider = create({ apiKey: 'k', maxRetries: 0, maxOutputTokens: 4321, fetch })
    for (const maxOutputTokens of [128_000, 4321, 1234]) {
      for await (const _ of provider.stream({ ...request, maxOutputTokens }, run)) continue
    }
    expect(bodies.map((body) => /:(\d{4,})/.exec(body)?.[1])).toEqual(['4321', '4321', '1234'])
    for await (const _ of provider.stream(request, run)) continue
    expect(bodies.at(-1)).not.toContain('4321')
  },
)
