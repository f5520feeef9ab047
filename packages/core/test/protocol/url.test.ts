import { expect, test } from 'vitest'
import { hostNameOf, originOf } from '../../../turnstream/src/server/web/origins.ts'
import { isBaseUrl } from '../../src/formats/vendor-request.ts'
import { parseUrl } from '../../src/protocol/url.ts'

test('an invalid URL is undefined', () => {
  expect(parseUrl('http://1.2.3.4.5')).toBeUndefined()
  expect(parseUrl('bücher.example')).toBeUndefined()
})

// More calls than it takes until the engine compiles them to fast ones.
test.each([
  ['a base URL', () => isBaseUrl('https://bücher.example')],
  ['a host', () => hostNameOf('bücher.example') === 'xn--bcher-kva.example'],
  ['an origin', () => originOf('https://bücher.example') === 'https://xn--bcher-kva.example'],
])('%s with letters beyond ASCII is accepted however often it is parsed', (_, isAccepted) => {
  const refused = Array.from({ length: 20_000 }, isAccepted).indexOf(false)
  expect(refused).toBe(-1)
})
