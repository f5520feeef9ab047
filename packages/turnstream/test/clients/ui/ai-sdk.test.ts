// @module-tag slow
/** examples/ai-sdk.tsx with the real useChat. */

import { expect, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import {
  type ClientOptions,
  createClient,
  type TurnSettings,
} from '../../../../client/src/index.ts'
import { payloads } from '../../../../conformance/src/index.ts'
import type { HeldCall } from '../../server/held-provider.ts'
import { startServer, type TestServer } from '../../server/support.ts'
import { answer, broken, call, delta, end } from '../../turns/payloads.ts'
import { puppet } from '../../turns/rig.ts'
import { tool } from '../../turns/some-tools.ts'
import { openPage } from './browser.ts'
import { loadExample, mountExample } from './examples.ts'

vi.setConfig({ testTimeout: 60_000 })

const LONG = 'All work and no play makes a long text. '.repeat(250)

interface Message {
  readonly id: string
  readonly role: string
  readonly parts: readonly Readonly<Record<string, unknown>>[]
}

/** As much of the AI SDK's chat as the tests use. */
interface SdkChat {
  readonly status: string
  readonly error?: Error
  readonly messages: readonly Message[]
  sendMessage(message: { text: string }): Promise<void>
  regenerate(): Promise<void>
  resumeStream(): Promise<void>
  addToolOutput(output: object): Promise<void>
}

interface ChatOptions {
  readonly id: string
  readonly transport: object
  readonly messages?: readonly Message[]
  readonly sendAutomaticallyWhen?: unknown
  readonly onToolCall?: (event: { toolCall: ToolCall }) => void
}

interface ToolCall {
  readonly toolName: string
  readonly toolCallId: string
  readonly input: unknown
}

interface Transport {
  loadMessages(chatId: string): Promise<Message[]>
}

interface Example {
  readonly TurnstreamTransport: new (options: ClientOptions, settings?: TurnSettings) => Transport
  readonly SdkChat: new (options: ChatOptions) => SdkChat
  readonly lastAssistantMessageIsCompleteWithToolCalls: unknown
}

/** A page with a chat of the example, as after a load. */
async function openChat(server: TestServer, settings: TurnSettings = {}, more: ClientOptions = {}) {
  const sdk = `
    export { Chat as SdkChat } from '@ai-sdk/react'
    export { lastAssistantMessageIsCompleteWithToolCalls } from 'ai'`
  const example = await loadExample<Example>('ai-sdk.tsx', { more: sdk })
  const options = { baseUrl: server.url, random: () => 0, ...more }
  const openTransport = () => new example.TurnstreamTransport(options, settings)
  const load = async () => {
    const transport = openTransport()
    const messages = await transport.loadMessages('chat')
    return { messages, ...mountExample(example, { id: 'chat', messages, transport }) }
  }
  return { load, openTransport, client: createClient(options), ...example }
}

/** Failures are easier to read so. */
function shorten(text: string): string {
  return text.replaceAll(LONG, '<long>')
}

function roles(): string[] {
  const shown = Array.from(document.querySelectorAll<HTMLElement>('[data-role]'))
  return shown.map((each) => `${each.dataset['role']}: ${shorten(each.textContent)}`)
}

test('streams an answer, resumes it after a reload without duplicates, and stops it', async () => {
  const server = await startServer()
  const page = openPage()
  const { load, openTransport } = await openChat(server, { providerId: 'held' })
  const first = await load()
  expect(first.messages).toEqual([])
  const called = server.held.nextCall()
  const send = async (text: string) => {
    await eventually(() => expect(page.find('button').hasAttribute('disabled')).toBe(false))
    page.type('input', text)
    page.submit()
  }
  await eventually(() => page.find('form'))
  await send('Tell me')
  const call = await called
  call.say(LONG)
  await eventually(() => expect(roles()).toEqual(['user: Tell me', 'assistant: <long>']))
  first.leave()
  call.say(LONG)
  const second = await load()
  expect(second.messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
  call.say(LONG)
  await eventually(() =>
    expect(roles()).toEqual(['user: Tell me', 'assistant: <long><long><long>']),
  )
  // Mounted twice by StrictMode, which must not stop the turn.
  expect(call.signal.aborted).toBe(false)
  page.find('button[type=button]').click()
  await eventually(() => expect(call.signal.aborted).toBe(true))
  await eventually(() => expect(page.find('button').hasAttribute('disabled')).toBe(false))
  const next = server.held.nextCall()
  await send('And now?')
  const answered = await next
  answered.say('Fine.')
  answered.finish()
  await eventually(() => {
    expect(roles().slice(2)).toEqual(['user: And now?', 'assistant: Fine.'])
    expect(page.find('button').hasAttribute('disabled')).toBe(false)
  })
  const loaded = await openTransport().loadMessages('chat')
  expect(loaded.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant'])
  expect(new Set(loaded.map(({ id }) => id)).size).toBe(4)
})

/** The real chat without a component: a server tool runs, then one of the page. */
test('tools run on the server and in the page, and their results are in the message once', async () => {
  const provider = puppet([
    [...call('c', 'add', { arguments: '{"a":1,"b":2}' }), end('tool_calls')],
    [...call('d', 'confirm', { arguments: '{"sum":3}' }), end('tool_calls')],
    [...answer('m', 'Three.'), end()],
    [...answer('m', 'Four.'), end()],
  ])
  const add = tool('add', ({ a, b }) => ({ sum: Number(a) + Number(b) }))
  const server = await startServer({ more: [provider], tools: [add] })
  const settings = { providerId: 'puppet', tools: [{ name: 'confirm', parameters: {} }] }
  const { SdkChat, openTransport, ...sdk } = await openChat(server, settings)
  const ran: unknown[] = []
  const transport = openTransport()
  const chat: SdkChat = new SdkChat({
    id: 'chat',
    transport,
    sendAutomaticallyWhen: sdk.lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall: { toolName, toolCallId, input } }) {
      ran.push(toolName, input)
      void chat.addToolOutput({ tool: toolName, toolCallId, output: { confirmed: true } })
    },
  })
  await chat.sendMessage({ text: '1 + 2?' })
  await eventually(() => expect(provider.calls).toHaveLength(3))
  await eventually(() => expect(chat.status).toBe('ready'))
  expect(ran).toEqual(['confirm', { sum: 3 }])
  const [, message, ...others] = chat.messages
  expect(others).toEqual([])
  const parts = [
    { type: 'step-start' },
    { type: 'dynamic-tool', toolName: 'add', state: 'output-available', output: { sum: 3 } },
    {
      type: 'dynamic-tool',
      toolName: 'confirm',
      state: 'output-available',
      output: { confirmed: true },
    },
    { type: 'step-start' },
    { type: 'text', text: 'Three.' },
  ]
  expect(message?.parts).toMatchObject(parts)
  const loaded = await transport.loadMessages('chat')
  expect(loaded).toMatchObject([{ role: 'user' }, { id: message?.id, parts }])
  await chat.regenerate()
  expect(chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
  expect(chat.messages[1]?.parts).toMatchObject([{ type: 'step-start' }, { text: 'Four.' }])
  expect(await transport.loadMessages('chat')).toHaveLength(2)
})

test('a message whose tools ran in the page is resumed with all of its turns', async () => {
  const server = await startServer({
    more: [puppet([[...call('d', 'confirm'), end('tool_calls')]])],
  })
  const { client, SdkChat, openTransport } = await openChat(server)
  const tools = [{ name: 'confirm', parameters: {} }]
  const asked = client.submit({ prompt: 'Go', threadId: 'chat', providerId: 'puppet', tools })
  await asked.done()
  const called = server.held.nextCall()
  client.answer('chat', [{ callId: 'call-d', output: 'yes' }], { providerId: 'held', tools })
  const { say, finish } = bound(await called)
  say(LONG)
  const transport = openTransport()
  const messages = await transport.loadMessages('chat')
  const chat = new SdkChat({ id: 'chat', messages, transport })
  const resumed = chat.resumeStream()
  await eventually(() => expect(chat.messages[1]?.parts.at(-1)).toMatchObject({ text: LONG }))
  finish()
  await resumed
  expect(chat.messages).toMatchObject([
    { role: 'user' },
    {
      id: asked.turnId,
      parts: [
        { type: 'step-start' },
        { type: 'dynamic-tool', state: 'output-available', output: 'yes' },
        { type: 'step-start' },
        { type: 'text', text: LONG },
      ],
    },
  ])
})

test('arguments are shown while the model writes them', async () => {
  const provider = puppet([({ say }) => say(...call('c', 'look').slice(0, 1))])
  const server = await startServer({ more: [provider] })
  const settings = { providerId: 'puppet', tools: [{ name: 'look', parameters: {} }] }
  const { SdkChat, openTransport } = await openChat(server, settings, { streamArguments: true })
  const chat = new SdkChat({ id: 'chat', transport: openTransport() })
  const sent = chat.sendMessage({ text: 'Look' })
  const { say, stream } = await provider.called(1)
  const text = JSON.stringify({ where: LONG })
  const part = () => chat.messages[1]?.parts[1]
  say(delta('c', text.slice(0, LONG.length)))
  await eventually(() => expect(part()).toMatchObject({ state: 'input-streaming' }))
  await eventually(() => {
    expect(String((part()?.['input'] as { where?: string })?.where)).toMatch(/^All work and no/)
  })
  const whole = { name: 'look', call_id: 'call-c', arguments: text }
  say(delta('c', text.slice(LONG.length)), payloads.itemDone(payloads.functionCall('c', whole)))
  say(end('tool_calls'))
  stream.complete()
  await sent
  expect(part()).toMatchObject({ state: 'input-available', input: { where: LONG } })
})

test('a turn that fails is an error of the chat', async () => {
  const failing = puppet([[broken('UPSTREAM_ERROR')]])
  const server = await startServer({ more: [failing] })
  const { SdkChat, openTransport } = await openChat(server, { providerId: 'puppet' })
  const chat = new SdkChat({ id: 'chat', transport: openTransport() })
  await chat.sendMessage({ text: 'Hi' })
  expect(chat.status).toBe('error')
  expect(chat.error?.message).toContain('of the vendor')
})

test('a turn whose stream was refused is followed by the next resume', async () => {
  const server = await startServer()
  let isRefusing = true
  const refusing: typeof fetch = (input, init) =>
    isRefusing && typeof input === 'string' && input.includes('/xapi/turns/')
      ? Promise.resolve(new Response('{}', { status: 400 }))
      : fetch(input, init)
  const { client, SdkChat, openTransport } = await openChat(server, {}, { fetch: refusing })
  const called = server.held.nextCall()
  client.submit({ prompt: 'Tell me', threadId: 'chat', providerId: 'held' })
  const { say, finish } = bound(await called)
  const chat = new SdkChat({ id: 'chat', transport: openTransport() })
  await chat.resumeStream()
  expect(chat.error?.message).toBe('HTTP_400')
  isRefusing = false
  const resumed = chat.resumeStream()
  say(LONG)
  await eventually(() => {
    expect(chat.messages.at(-1)?.parts.at(-1)).toMatchObject({ type: 'text', text: LONG })
  })
  finish()
  await resumed
  expect(chat.status).toBe('ready')
})

function bound(held: HeldCall) {
  return { say: (text: string) => held.say(text), finish: () => held.finish() }
}
