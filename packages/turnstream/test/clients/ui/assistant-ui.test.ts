// @module-tag slow
/** examples/assistant-ui.tsx with the real components and the real runtime. */

import { expect, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { createClient, type TurnSettings } from '../../../../client/src/index.ts'
import { startServer, type TestServer } from '../../server/support.ts'
import { answer, call, end } from '../../turns/payloads.ts'
import { puppet } from '../../turns/rig.ts'
import { tool } from '../../turns/some-tools.ts'
import { openPage } from './browser.ts'
import { loadExample, mountExample } from './examples.ts'

vi.setConfig({ testTimeout: 60_000 })

const LONG = 'All work and no play makes a long text. '.repeat(250)

/** As much of assistant-ui's runtime as the tests use. */
interface Runtime {
  readonly thread: {
    getState(): { readonly messages: readonly Message[]; readonly isRunning: boolean }
    append(message: string | object): void
    getMessageById(id: string): {
      reload(): void
      getMessagePartByToolCallId(id: string): {
        addToolResult(result: unknown): void
        respondToToolApproval(response: object): Promise<void>
      }
    }
  }
}

interface Message {
  readonly id: string
  readonly role: string
  readonly content: readonly Readonly<Record<string, unknown>>[]
  readonly status?: object
}

/** Hands the runtime to the test. */
const MORE = `
import { useTurnstreamRuntime } from './example.tsx'
function Probe({ client, threadId, settings, onRuntime }) {
  onRuntime(useTurnstreamRuntime(client, threadId, settings))
  return null
}
export function mountProbe(container, props) {
  const root = createRoot(container)
  root.render(createElement(Probe, props))
  return root
}
`

function propsFor(server: TestServer, settings: TurnSettings) {
  const client = createClient({ baseUrl: server.url, random: () => 0 })
  return { client, threadId: 'h', settings }
}

/** The runtime of the example in a component that shows nothing. */
async function openRuntime(server: TestServer, settings: TurnSettings) {
  openPage()
  const { mountProbe } = await loadExample<{ mountProbe: Mount }>('assistant-ui.tsx', {
    more: MORE,
  })
  let runtime: Runtime | undefined
  const onRuntime = (given: Runtime) => {
    runtime = given
  }
  mountExample({ mount: mountProbe }, { ...propsFor(server, settings), onRuntime })
  return await eventually(() => {
    if (runtime === undefined) throw new Error('not rendered yet')
    const { thread } = runtime
    return { thread, messages: () => thread.getState().messages }
  })
}

type Mount = Parameters<typeof mountExample>[0]['mount']

function shown(): string[] {
  const messages = Array.from(document.querySelectorAll<HTMLElement>('[data-role]'))
  // Failures are easier to read so. The dot is shown while the answer grows.
  const shorten = (text: string) => text.replaceAll(LONG, '<long>').replace(' \u25CF', '')
  return messages.map((each) => `${each.dataset['role']}: ${shorten(each.textContent)}`)
}

test('streams an answer, goes on after a reload, and stops it', async () => {
  const server = await startServer()
  const page = openPage()
  const example = await loadExample('assistant-ui.tsx', {})
  const props = () => propsFor(server, { providerId: 'held' })
  const { leave } = mountExample(example, props())
  const called = server.held.nextCall()
  await eventually(() => page.type('textarea', 'Tell me'))
  await eventually(() => page.find('button:not([disabled])').click())
  const held = await called
  held.say(LONG)
  await eventually(() => expect(shown()).toEqual(['user: Tell me', 'assistant: <long>']))
  leave()
  held.say(LONG)
  mountExample(example, props())
  await eventually(() => expect(shown()[1]).toBe('assistant: <long><long>'))
  await eventually(() => page.find('button:nth-of-type(2):not([disabled])').click())
  await eventually(() => expect(held.signal.aborted).toBe(true))
  await eventually(() => {
    expect(page.find('button:nth-of-type(2)').hasAttribute('disabled')).toBe(true)
  })
  expect(shown()).toHaveLength(2)
})

test('tools run on the server and in the page, and the thread is edited and regenerated', async () => {
  const provider = puppet([
    [...call('c', 'add', { arguments: '{"a":1,"b":2}' }), end('tool_calls')],
    [...call('d', 'confirm'), ...call('e', 'confirm'), end('tool_calls')],
    [...answer('m', 'Three.'), end()],
    [...answer('m', 'Again.'), end()],
    [...answer('m', 'Edited.'), end()],
  ])
  const add = tool('add', ({ a, b }) => ({ sum: Number(a) + Number(b) }))
  const server = await startServer({ more: [provider], tools: [add] })
  const tools = [{ name: 'confirm', parameters: {} }]
  const { thread, messages } = await openRuntime(server, { providerId: 'puppet', tools })
  thread.append('1 + 2?')
  await eventually(() => expect(messages()[1]?.status).toMatchObject({ type: 'requires-action' }))
  const [prompt, asked] = messages()
  expect(asked?.content).toMatchObject([
    {
      type: 'tool-call',
      toolName: 'add',
      args: { a: 1, b: 2 },
      result: { sum: 3 },
      isError: false,
    },
    { type: 'tool-call', toolName: 'confirm', toolCallId: 'call-d' },
    { type: 'tool-call', toolName: 'confirm', toolCallId: 'call-e' },
  ])
  const parts = thread.getMessageById(asked?.id ?? '')
  parts.getMessagePartByToolCallId('call-d').addToolResult('yes')
  expect(provider.calls).toHaveLength(2)
  parts.getMessagePartByToolCallId('call-e').addToolResult('no')
  await eventually(() => {
    expect(messages()[2]).toMatchObject({
      content: [{ text: 'Three.' }],
      status: { type: 'complete' },
    })
  })
  expect(messages()[1]?.content.slice(1)).toMatchObject([{ result: 'yes' }, { result: 'no' }])
  thread.getMessageById(asked?.id ?? '').reload()
  await eventually(() => {
    const texts = messages().map(({ content }) => content[0]?.['text'])
    expect(texts).toEqual(['1 + 2?', 'Again.'])
  })
  const [again] = messages()
  expect(again?.id).not.toBe(prompt?.id)
  const content = [{ type: 'text', text: '2 + 2?' }]
  thread.append({ role: 'user', content, parentId: null, sourceId: again?.id })
  await eventually(() => {
    const texts = messages().map(({ content: [part] }) => part?.['text'])
    expect(texts).toEqual(['2 + 2?', 'Edited.'])
  })
})

test('a call that waits for approval is answered', async () => {
  const provider = puppet([
    [...call('c', 'pay'), end('tool_calls')],
    [...answer('m', 'Declined.'), end()],
  ])
  const pay = tool('pay', () => 'paid', { needsApproval: true })
  const server = await startServer({ more: [provider], tools: [pay] })
  const { thread, messages } = await openRuntime(server, { providerId: 'puppet' })
  thread.append('Pay')
  await eventually(() => expect(messages()[1]?.content[0]?.['approval']).toBeDefined())
  const part = thread.getMessageById(messages()[1]?.id ?? '').getMessagePartByToolCallId('call-c')
  await part.respondToToolApproval({ approved: false, reason: 'too expensive' })
  await eventually(() => expect(messages()[1]?.status).toMatchObject({ type: 'complete' }))
  expect(messages()[1]?.content).toMatchObject([
    { toolName: 'pay', isError: true, approval: { approved: false } },
    { text: 'Declined.' },
  ])
})
