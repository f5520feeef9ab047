import { expect, test, vi } from 'vitest'
import { Providers } from '../../../src/turns/providers.ts'
import { eventually } from '../../eventually.ts'
import { read } from '../../repository/sources.ts'
import { HeldProvider } from '../../server/held-provider.ts'
import { startServer } from '../../server/support.ts'
import { openPage } from './browser.ts'
import { loadExample, mountExample } from './examples.ts'

vi.setConfig({ testTimeout: 60_000 })

const LONG = 'All work and no play makes a long text. '.repeat(250)

test('react.tsx is a chat in 40 lines', () => {
  expect(read('examples/react.tsx').trimEnd().split('\n').length).toBeLessThanOrEqual(40)
})

test('react.tsx streams, goes on after a reload, and stops', { tags: ['slow'] }, async () => {
  const held = new HeldProvider()
  const server = await startServer({
    providers: new Providers([{ provider: held, defaultModel: 'm' }]),
  })
  const page = openPage()
  const chat = await loadExample('react.tsx', server)
  const { leave } = mountExample(chat)
  const called = held.nextCall()
  await eventually(() => page.type('input', 'Tell me'))
  page.submit()
  await eventually(() => expect(page.text()).toContain('Tell me'))
  const call = await called
  call.say(LONG)
  await eventually(() => expect(page.text()).toContain(LONG))
  expect(page.find('button').textContent).toBe('Stop')
  leave()
  expect(page.text()).toBe('')
  call.say('More. ')
  // The page is loaded again: nothing is left but what it stored.
  mountExample(await loadExample('react.tsx', server))
  call.say(LONG)
  await eventually(() => expect(page.text()).toContain(`Tell me${LONG}More. ${LONG}`))
  page.find('button').click()
  await eventually(() => expect(page.find('button').textContent).toBe('Send'))
  expect(call.signal.aborted).toBe(true)
})
