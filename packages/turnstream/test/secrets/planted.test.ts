import { expect, test } from 'vitest'
import { leaksIn, spellingsOf } from './planted.ts'

const secret = 'pl4nted"secret/with+\\signs'

test.each([
  ['as it is', secret],
  ['in a URL', `?a=${encodeURIComponent(secret)}&b`],
  ['in JSON', JSON.stringify({ a: secret })],
  ['in JSON in JSON', JSON.stringify(JSON.stringify({ a: secret }))],
  ['as Basic credentials', Buffer.from(`user:${secret}`).toString('base64')],
  ['as others', Buffer.from(`:${secret}`).toString('base64')],
  ['in a token', Buffer.from(JSON.stringify({ user: 1, secret })).toString('base64url')],
  ['as bytes', Buffer.from(secret).toString('hex')],
])('the scan finds a secret %s', (_name, text) => {
  // In a token it is written as in JSON first.
  const planted = text.startsWith('eyJ') ? JSON.stringify(secret).slice(1, -1) : secret
  expect(leaksIn(`before ${text} after`, { it: planted })).toHaveLength(1)
})

test('the scan finds nothing in clean output', () => {
  expect(leaksIn('before pl4nted and after', { it: secret })).toEqual([])
  expect(spellingsOf(secret).every((spelling) => spelling.length >= 12)).toBe(true)
})
