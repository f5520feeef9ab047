import { describe, expect, test } from 'vitest'
import { AllowedOrigins, isOwnOrigin, originOf } from '../../../src/server/web/origins.ts'

describe('an origin', () => {
  test.each([
    ['https://app.example', 'https://app.example'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['HTTPS://App.Example', 'https://app.example'],
    ['https://app.example:443', 'https://app.example'],
    ['http://app.example:443', 'http://app.example:443'],
    ['https://bücher.example', 'https://xn--bcher-kva.example'],
    ['http://127.0.0.1:4010', 'http://127.0.0.1:4010'],
    ['http://[::1]:4010', 'http://[::1]:4010'],
    ['capacitor://localhost', 'capacitor://localhost'],
    ['chrome-extension://ABC', 'chrome-extension://abc'],
  ])('%s is %s, as browsers write it', (written, origin) => {
    expect(originOf(written)).toBe(origin)
  })

  test.each([
    '',
    '*',
    'null',
    'app.example',
    '//app.example',
    'https://',
    'https://app.example/',
    'https://app.example/path',
    'https://app.example?query',
    'https://app.example#part',
    'https://user@app.example',
    'https://user:secret@app.example',
    'https://*.app.example',
    'https://app.example:*',
    'https://app.example:99999',
    'https://app.example https://other.example',
    'https://app.example\\evil',
    'https://app.example\r\nx: y',
    'https://a[b]',
    'javascript:alert(1)',
    'file:///etc',
  ])('%j is invalid', (written) => {
    expect(originOf(written)).toBeUndefined()
    const make = () => new AllowedOrigins([written], { hasKeys: false })
    expect(make).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    expect(make).toThrow('corsOrigins')
  })
})

describe('the list', () => {
  test('allows exactly the origins it names', () => {
    const list = new AllowedOrigins(['https://App.example', 'http://localhost:3000'], {
      hasKeys: false,
    })
    const asked = [
      'https://app.example',
      'http://localhost:3000',
      'http://app.example',
      'https://app.example:8443',
      'https://app.example.evil.example',
      'https://evilapp.example',
      'https://sub.app.example',
      'http://localhost',
      'null',
      '',
      '*',
      '__proto__',
      'https://app.example, https://evil.example',
    ]
    expect(asked.filter((origin) => list.has(origin))).toEqual(asked.slice(0, 2))
    expect([list.isEmpty, list.isOpen]).toEqual([false, false])
  })

  test('is empty by default', () => {
    const list = new AllowedOrigins([], { hasKeys: true })
    expect([list.isEmpty, list.has('https://app.example'), list.has('null')]).toEqual([
      ...[true, false, false],
    ])
  })

  test('may be * when keys are required', () => {
    const list = new AllowedOrigins(['*'], { hasKeys: true })
    expect([list.isOpen, list.has('https://any.example'), list.has('null')]).toEqual([
      ...[true, true, true],
    ])
  })

  test('may not be * without keys, nor contain anything besides *', () => {
    const open = (origins: string[], hasKeys: boolean) => () =>
      new AllowedOrigins(origins, { hasKeys })
    expect(open(['*'], false)).toThrow('list the origins')
    expect(open(['*', 'https://app.example'], true)).toThrow('must be the only entry')
  })
})

describe('the target origin of a request', () => {
  test.each([
    ['http://127.0.0.1:4010', '127.0.0.1:4010', true],
    ['http://localhost:4010', 'localhost:4010', true],
    ['https://turns.example', 'turns.example', true],
    ['https://turns.example', 'turns.example:443', true],
    ['http://turns.example', 'turns.example:80', true],
    ['http://[::1]:4010', '[::1]:4010', true],
    ['http://localhost:3000', 'localhost:4010', false],
    ['http://localhost', 'localhost:4010', false],
    ['http://127.0.0.1:4010', 'localhost:4010', false],
    ['https://turns.example', 'turns.example:80', false],
    ['https://turns.example.evil.example', 'turns.example', false],
    ['https://evil.example', 'turns.example', false],
    ['null', 'null', false],
    ['', 'turns.example', false],
    ['turns.example', 'turns.example', false],
  ])('%s for %s: %s', (origin, host, isOwn) => {
    expect(isOwnOrigin(origin, host)).toBe(isOwn)
  })
})
