import { expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { read } from '../../../../../test/repository/sources.ts'
import { Providers } from '../../../src/server.ts'
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
  // The thread is busy.
  page.type('input', 'And then')
  page.submit()
  expect((page.find('input') as HTMLInputElement).value).toBe('And then')
  expect(page.text()).not.toContain('And then')
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

test('react.tsx says why there is no connection', { tags: ['slow'] }, async () => {
  const page = openPage()
  mountExample(await loadExample('react.tsx', { url: 'http://127.0.0.1:1' }))
  await eventually(() => expect(page.find('[role=status]').textContent).toMatch(/^connecting: ./))
})

test('react.tsx does not report that a new thread is unknown', { tags: ['slow'] }, async () => {
  const server = await startServer()
  const requested = vi.spyOn(globalThis, 'fetch')
  onTestFinished(() => requested.mockRestore())
  const page = openPage()
  mountExample(await loadExample('react.tsx', server))
  await eventually(() => expect(requested).toHaveBeenCalled())
  expect(await requested.mock.results[0]?.value).toMatchObject({ status: 404 })
  await eventually(() => page.find('form'))
  expect(page.document.querySelector('[role=status]')).toBeNull()
})

test.each(['react.tsx', 'chat.html'])('%s runs on pages without TLS', (file) => {
  expect(read(`examples/${file}`)).not.toContain('randomUUID')
})
