import { setImmediate as settled } from 'node:timers/promises'
import type { FC } from 'react'
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import type { ItemSnapshot } from '../../../core/src/index.ts'
import {
  finishedTurn,
  heldTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { type ClientOptions, createClient, type TurnView } from '../../src/index.ts'
import { FakePage } from '../client/support.ts'
import { openReactPage, type ReactPage } from './support.ts'

// The first test loads the libraries.
vi.setConfig({ testTimeout: 60_000 })

/** Longer than every threshold of the processor, which emits it at once. */
const LONG = 'All work and no play makes a long text. '.repeat(250)

/** A client whose requests a test may watch: those to streams that are open, and all of them. */
function watchedClient(server: TestServer, options: ClientOptions = {}) {
  const requests: string[] = []
  const open = new Set<string>()
  let chunks = 0
  const watching: typeof fetch = async (input, init) => {
    const { pathname } = new URL(typeof input === 'string' ? input : '')
    requests.push(`${init?.method ?? 'GET'} ${pathname}`)
    const response = await fetch(input, init)
    if (!pathname.endsWith('/stream') || !response.ok) return response
    open.add(pathname)
    init?.signal?.addEventListener('abort', () => open.delete(pathname))
    const counting = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        chunks += 1
        controller.enqueue(chunk)
      },
    })
    return new Response(response.body?.pipeThrough(counting), response)
  }
  const client = createClient({ baseUrl: server.url, random: () => 0, fetch: watching, ...options })
  return { client, requests, open, chunks: () => chunks }
}

type Watched = ReturnType<typeof watchedClient>

/** A chat that counts how often it and each of its rows render. */
function countingChat({ React, hooks }: ReactPage, { client }: Watched, threadId: string) {
  const renders: Record<string, number> = {}
  const count = (name: string) => {
    renders[name] = (renders[name] ?? 0) + 1
  }
  const Row: FC<{ item: ItemSnapshot }> = React.memo(({ item }: { item: ItemSnapshot }) => {
    count(item.itemId)
    return React.createElement('p', {}, item.content)
  })
  const Section: FC<{ turn: TurnView }> = React.memo(({ turn }: { turn: TurnView }) => {
    count(turn.turnId)
    return React.createElement(
      'section',
      {},
      turn.items.map((item) => React.createElement(Row, { key: item.itemId, item })),
    )
  })
  const Chat: FC = () => {
    count('chat')
    const { turns, connection } = hooks.useThread(client, threadId)
    const sections = turns.map((turn) => React.createElement(Section, { key: turn.turnId, turn }))
    return React.createElement('main', { 'data-status': connection.status }, sections)
  }
  return { Chat, renders }
}

describe.each(['newest', 18] as const)('with React %s', (version) => {
  test('renders once per frame however much arrives, and only the rows that grow', async () => {
    const server = await startServer()
    const done = await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const { call, turnId } = await heldTurn(server, { threadId: 'h' })
    const frames = new FakePage()
    const watched = watchedClient(server, { page: frames })
    const page = await openReactPage(version)
    const { Chat, renders } = countingChat(page, watched, 'h')
    page.mount(page.React.createElement(Chat))
    call.say(LONG)
    await eventually(() => {
      frames.draw()
      expect(page.text()).toContain(LONG)
    })
    const before = { ...renders }
    for (let frame = 1; frame <= 5; frame++) {
      const seen = watched.chunks()
      call.say(LONG)
      await eventually(() => expect(watched.chunks()).toBeGreaterThan(seen))
      call.say(LONG)
      await eventually(() => expect(watched.chunks()).toBeGreaterThan(seen + 1))
      await eventually(() => expect(frames.frames.size).toBe(1))
      frames.draw()
      await eventually(() => expect(page.text().length).toBeGreaterThan(frame * LONG.length))
      expect(renders['chat']).toBe((before['chat'] ?? 0) + frame)
    }
    expect(renders[turnId]).toBe((before[turnId] ?? 0) + 5)
    const still = [done.turnId, `${done.turnId}-user-prompt`, `${turnId}-user-prompt`]
    for (const name of still) expect(renders[name], name).toBe(before[name])
    call.finish()
  })

  test('a component with two hooks renders once per frame', async () => {
    const server = await startServer()
    const held = [
      await heldTurn(server, { threadId: 'one' }),
      await heldTurn(server, { threadId: 'two' }),
    ]
    const page = await openReactPage(version)
    const frames: FrameRequestCallback[] = []
    globalThis.requestAnimationFrame = (task) => frames.push(task)
    let renders = 0
    let mostRenders = 0
    /** Draws a frame, with the microtasks of each callback. */
    const draw = async () => {
      renders = 0
      for (const task of frames.splice(0)) {
        task(0)
        await settled()
      }
      mostRenders = Math.max(mostRenders, renders)
    }
    const watched = watchedClient(server)
    const Both: FC = () => {
      renders += 1
      const shown = ['one', 'two'].map((id) => page.hooks.useThread(watched.client, id))
      const items = shown.flatMap(({ turns }) => turns).flatMap((turn) => turn.items)
      return page.React.createElement('p', {}, items.map(({ content }) => content).join(''))
    }
    page.mount(page.React.createElement(Both))
    await eventually(() => expect(renders).toBe(1))
    for (let count = 1; count <= 3; count++) {
      const seen = watched.chunks()
      for (const { call } of held) call.say(LONG)
      await eventually(async () => {
        expect(watched.chunks()).toBeGreaterThan(seen + 1)
        await draw()
        expect(page.text().length).toBeGreaterThan(2 * count * LONG.length)
      })
    }
    expect(mostRenders).toBe(1)
    for (const { call } of held) call.finish()
  })

  test('a hidden page, which draws no frames, is up to date', async () => {
    const server = await startServer()
    const page = await openReactPage(version)
    Object.defineProperty(page.document, 'hidden', { value: true, configurable: true })
    globalThis.requestAnimationFrame = () => 0
    const watched = watchedClient(server)
    const { Chat } = countingChat(page, watched, 'h')
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    page.mount(page.React.createElement(Chat))
    await eventually(() => expect(page.text()).toBe('HiHello, world.'))
  })

  test('StrictMode opens one connection, and unmounting closes it', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const frames = new FakePage()
    const watched = watchedClient(server, { page: frames })
    const page = await openReactPage(version)
    const { Chat } = countingChat(page, watched, 'h')
    const { StrictMode, createElement } = page.React
    const mounted = page.mount(createElement(StrictMode, {}, createElement(Chat)))
    await eventually(() => {
      frames.draw()
      expect(page.find('main').dataset['status']).toBe('live')
    })
    expect(watched.requests).toEqual(['GET /xapi/threads/h', 'GET /xapi/threads/h/stream'])
    expect(watched.open.size).toBe(1)
    mounted.unmount()
    await eventually(() => expect(watched.open.size).toBe(0))
    expect(frames.listeners.size).toBe(0)
    expect(watched.requests).toHaveLength(2)
  })

  test('a server renders without requests, and the page takes over without corrections', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const watched = watchedClient(server)
    const page = await openReactPage(version)
    const { Chat } = countingChat(page, watched, 'h')
    const html = page.renderToString(page.React.createElement(Chat))
    expect(html).toBe('<main data-status="idle"></main>')
    expect(watched.requests).toEqual([])
    // Something else on the page already follows the thread.
    const thread = watched.client.thread('h')
    const unsubscribe = thread.subscribe(() => {})
    await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(1))
    const { errors } = page.hydrate(page.React.createElement(Chat), html)
    await eventually(() => expect(page.text()).toBe('HiHello, world.'))
    expect(errors).toEqual([])
    unsubscribe()
  })

  test('useTurn follows the turn of its id, and nothing without one', async () => {
    const server = await startServer()
    const first = await heldTurn(server)
    const second = await heldTurn(server)
    const watched = watchedClient(server)
    const page = await openReactPage(version)
    const { createElement } = page.React
    const Answer: FC<{ turnId?: string }> = ({ turnId }) => {
      const { turn, connection } = page.hooks.useTurn(watched.client, turnId)
      return createElement('p', {}, connection.status, ' ', turn?.items.at(-1)?.content)
    }
    const mounted = page.mount(createElement(Answer))
    await eventually(() => expect(page.text()).toBe('idle '))
    expect(watched.requests).toEqual([])
    for (const { call, turnId } of [first, second]) {
      mounted.render(createElement(Answer, { turnId }))
      call.say(LONG)
      await eventually(() => expect(page.text()).toBe(`live ${LONG}`))
      await eventually(() => expect([...watched.open]).toEqual([`/xapi/turns/${turnId}/stream`]))
    }
    second.call.finish()
    await eventually(() => expect(page.text()).toBe(`ended ${LONG}`))
    first.call.finish()
  })

  test('useSubmit shows the prompt at once, and says when the gateway has it or refuses it', async () => {
    const server = await startServer()
    const { client } = watchedClient(server)
    const page = await openReactPage(version)
    const { createElement, useState } = page.React
    const states: string[] = []
    const Chat: FC = () => {
      const [threadId, setThreadId] = useState<string | undefined>('h')
      const { turns } = page.hooks.useThread(client, threadId)
      const { submit, isSubmitting, error, turn } = page.hooks.useSubmit(client, threadId)
      states.push(`${turns.length} ${isSubmitting} ${error?.code ?? turns[0]?.status}`)
      return createElement(
        'div',
        {},
        ...['plain/m', 'nobody/m'].map((model) =>
          createElement('button', { onClick: () => submit({ prompt: 'Hi', model }) }, model),
        ),
        createElement('button', { onClick: () => submit('Hi') }, 'default'),
        createElement('button', { onClick: () => setThreadId(undefined) }, 'new'),
        createElement('output', {}, `${threadId} ${error?.code} ${turn !== undefined}`),
      )
    }
    const click = (text: string) => {
      const buttons = Array.from(page.document.querySelectorAll('button'))
      buttons.find((button) => button.textContent === text)?.click()
    }
    page.mount(createElement(Chat))
    await eventually(() => expect(page.find('output').textContent).toBe('h undefined false'))
    click('plain/m')
    await eventually(() => expect(states.at(-1)).toBe('1 false complete'))
    expect(states).toContain('1 true running')
    click('default')
    await eventually(() => expect(states.at(-1)).toMatch(/^2 false /))
    click('nobody/m')
    await eventually(() => expect(states.at(-1)).toMatch(/^3 false [A-Z_]+$/))
    expect(page.find('output').textContent).toMatch(/^h [A-Z_]+ true$/)
    // Of two submits, the last one counts.
    click('nobody/m')
    click('plain/m')
    await eventually(() => expect(states.at(-1)).toBe('5 false complete'))
    expect(page.find('output').textContent).toBe('h undefined true')
    click('new')
    await eventually(() =>
      expect(page.find('output').textContent).toBe('undefined undefined false'),
    )
    click('plain/m')
    await eventually(() => {
      expect(page.find('output').textContent).toBe('undefined undefined true')
    })
    await eventually(async () => expect((await client.threads()).threads).toHaveLength(2))
  })
})
