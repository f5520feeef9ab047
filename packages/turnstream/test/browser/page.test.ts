/**
 * The page that the gateway serves, in a real Chromium, as visitors use it.
 *
 * @module-tag slow
 */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Cassette, encodeCassette } from '../../../core/src/index.ts'
import { CASSETTE_FORMAT, CASSETTE_VERSION } from '../../../core/src/protocol/names.ts'
import { BEGINNING, ENDING } from '../clients/chat-vendor.ts'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import { answers, ask, checkAnswer, faultsOf, openPage, openTab, refusedOn } from './page.ts'
import type { Page } from './playwright.ts'

const browser = useBrowser()
const { newContext } = browser

let vendor: Gateway
let scripted: Gateway

beforeAll(async () => {
  vendor = await new Gateway().start({ heartbeat: '1s' })
  scripted = await new Gateway().start({ providers: {}, scriptedSpeed: 0 })
})
afterAll(() => Promise.all([vendor.close(), scripted.close()]))

const open = (gateway: Gateway) => openPage(browser, gateway)

describe('a conversation', () => {
  test('goes on after a reload, and is in sync in a second tab', async () => {
    const { context, page } = await open(vendor)
    const prompt = await ask(page)
    await checkAnswer(page, BEGINNING)
    await page.reload()
    await checkAnswer(page, BEGINNING)
    const other = await openTab(context, page.url())
    await checkAnswer(other, BEGINNING)
    vendor.vendor.finish(prompt)
    for (const each of [page, other]) {
      await checkAnswer(each, BEGINNING + ENDING)
      expect(await refusedOn(each)).toEqual([])
    }
    expect(await page.locator('nav li a').first().innerText()).toBe(prompt)
  })

  test('can be stopped, retried and edited', async () => {
    const { page } = await open(vendor)
    const prompt = await ask(page)
    await checkAnswer(page, BEGINNING)
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect.poll(() => page.locator('.notice').allInnerTexts()).toEqual(['Stopped.'])
    const isAnswering = () => vendor.vendor.open.has(prompt)
    await expect.poll(isAnswering).toBe(false)
    await page.getByRole('button', { name: 'Retry' }).click()
    await expect.poll(() => page.locator('.notice').count()).toBe(0)
    await expect.poll(isAnswering).toBe(true)
    await checkAnswer(page, BEGINNING)
    vendor.vendor.finish(prompt)
    await checkAnswer(page, BEGINNING + ENDING)
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByRole('textbox', { name: 'Edited message' }).fill(`${prompt}, edited`)
    await page.getByRole('button', { name: 'Send again' }).click()
    await expect
      .poll(() => page.locator('.prompt > p').allInnerTexts())
      .toEqual([`${prompt}, edited`])
    await checkAnswer(page, BEGINNING)
    vendor.vendor.finish(`${prompt}, edited`)
  })

  test('lets the user answer client tools', async () => {
    const { page } = await open(scripted)
    const body = {
      ...{ turnId: 'by-hand', threadId: 'by-hand', prompt: 'How warm is it?' },
      model: 'scripted/client-tools',
      tools: [{ name: 'thermometer', parameters: { type: 'object' } }],
    }
    await fetch(`${scripted.url}/api/v2/submit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    await page.goto(`${scripted.url}/?thread=by-hand`)
    await page.getByRole('textbox', { name: 'Output of thermometer' }).fill('21 °C')
    expect(await faultsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Send output' }).click()
    await expect.poll(() => page.locator('.tool').innerText()).toContain('is done')
    await expect.poll(() => page.locator('.turn.settled').count()).toBe(2)
  })

  test('of 100,000 tokens stays responsive', async () => {
    const { page } = await open(vendor)
    const prompt = await ask(page)
    await checkAnswer(page, BEGINNING)
    await page.evaluate(() => {
      const tasks: number[] = []
      Object.assign(globalThis, { tasks })
      new PerformanceObserver((list) => {
        tasks.push(...list.getEntries().map(({ duration }) => duration))
      }).observe({ entryTypes: ['longtask'] })
    })
    const part = 'Some words of a long answer, **bold** and `code` among them. '.repeat(6)
    for (let index = 0; index < 1000; index++) {
      vendor.vendor.say(prompt, `${part}\n\n${index % 20 === 0 ? `## Part ${index}\n\n` : ''}`)
      // In the order in which it is written, while the page shows it.
      if (index % 20 === 0) await page.evaluate(() => new Promise(requestAnimationFrame))
    }
    vendor.vendor.finish(prompt)
    await expect.poll(() => page.locator('.turn.settled').count(), { timeout: 30_000 }).toBe(1)
    await expect.poll(() => page.locator('.answer p').count()).toBeGreaterThan(1000)
    const tasks = await page.evaluate(() => (globalThis as unknown as { tasks: number[] }).tasks)
    // A page that parsed or rendered everything again would take seconds.
    expect(Math.max(0, ...tasks)).toBeLessThan(1000)
  })

  test('is renamed, found and deleted', async () => {
    const { page } = await open(vendor)
    const prompt = await ask(page)
    await checkAnswer(page, BEGINNING)
    vendor.vendor.finish(prompt)
    await page.getByRole('button', { name: `Rename ${prompt}` }).click()
    const field = page.getByRole('textbox', { name: 'New title' })
    await field.fill(`Title of ${prompt}`)
    await field.press('Enter')
    await page.getByRole('searchbox', { name: 'Search conversations' }).fill(`title OF ${prompt}`)
    const titles = () => page.locator('nav li a').allInnerTexts()
    await expect.poll(titles).toEqual([`Title of ${prompt}`])
    await page.getByRole('button', { name: `Delete Title of ${prompt}` }).click()
    await page.locator('dialog[open] .danger').click()
    await expect.poll(titles).toEqual([])
    expect(page.url()).toBe(`${vendor.url}/`)
  })

  test('shows that it reconnects while the server is down, and continues', async () => {
    const gateway = new Gateway()
    onTestFinished(() => gateway.close())
    await gateway.start({ heartbeat: '1s', lease: '1s' })
    const { page } = await open(gateway)
    await ask(page)
    await checkAnswer(page, BEGINNING)
    await gateway.kill()
    const connection = () => page.locator('.connection').innerText()
    await expect.poll(connection, { timeout: 15_000 }).toMatch(/cannot be reached.*Trying again/s)
    await gateway.run()
    await expect.poll(connection, { timeout: 30_000 }).toBe('Live')
    await expect
      .poll(() => page.locator('.notice.error').innerText(), { timeout: 15_000 })
      .toContain('The server stopped during this answer')
    expect(await answers(page)).toEqual([BEGINNING])
  })

  test('prompts for a key once and never puts it into URLs', async () => {
    const gateway = new Gateway()
    onTestFinished(() => gateway.close())
    const key = gateway.addKey('someone')
    await gateway.start({ keysFile: 'keys' })
    const { context, page } = await open(gateway)
    const addresses: string[] = []
    context.on('request', (request) => addresses.push(request.url()))
    await page.locator('dialog[open] input').fill(key)
    await page.getByRole('button', { name: 'Use key' }).click()
    const prompt = await ask(page)
    await checkAnswer(page, BEGINNING)
    await page.reload()
    await checkAnswer(page, BEGINNING)
    gateway.vendor.finish(prompt)
    await checkAnswer(page, BEGINNING + ENDING)
    expect(await page.locator('dialog[open]').count()).toBe(0)
    expect(addresses.filter((address) => address.includes(key))).toEqual([])
  })
})

describe('a first visit', () => {
  test('shows thinking', async () => {
    const { page } = await open(scripted)
    await page.getByRole('button', { name: /See it think/ }).click()
    await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
    expect(await page.locator('.thinking').innerText()).toContain('Thought')
    expect(await page.locator('.answer table').count()).toBe(1)
    const facts = await page.locator('.turn .facts').innerText()
    const [, first, all] = /first words after (\S+) s of (\S+) s$/.exec(facts) ?? []
    expect(Number(first), facts).toBeLessThanOrEqual(Number(all))
    expect(await faultsOf(page)).toEqual([])
  })

  test('lets a tool be approved', async () => {
    const { page } = await open(scripted)
    await page.getByRole('button', { name: /Approve a tool/ }).click()
    await expect.poll(() => page.locator('.tool').innerText()).toContain('waits for your approval')
    expect(await faultsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Approve' }).click()
    await expect.poll(() => page.locator('.tool').innerText()).toContain('is done')
    await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  })

  test('shows a failure and what to do', async () => {
    const { page } = await open(scripted)
    await page.getByRole('button', { name: /Watch a failure/ }).click()
    await expect.poll(() => page.locator('.notice.error').count()).toBe(1)
    expect(await page.locator('.notice.error').innerText()).toContain('Retry')
    expect(await faultsOf(page)).toEqual([])
  })

  test('works on a phone', async () => {
    const { page } = await open(scripted)
    await page.setViewportSize({ width: 360, height: 640 })
    expect(await faultsOf(page)).toEqual([])
    expect(await page.evaluate(() => document.querySelector('.scroller')?.scrollTop)).toBe(0)
    await page.getByRole('button', { name: /See it think/ }).click()
    await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
    const width = await page.evaluate(() => document.documentElement.scrollWidth)
    expect(width).toBe(360)
    await page.getByRole('button', { name: 'Conversations' }).click()
    await page.getByRole('button', { name: 'New conversation' }).click()
    await expect.poll(() => page.locator('.welcome').count()).toBe(1)
  })
})

test('what a model writes is text, never markup', async () => {
  const { page } = await open(vendor)
  const prompt = await ask(page, '<img src=x onerror="pwned=1">')
  await checkAnswer(page, BEGINNING)
  const payloads = [
    '<script>pwned=1</script>',
    '<img src=x onerror="pwned=1">',
    '[link](javascript:pwned=1)',
    '![image](https://evil.example/a.png?secret)',
    '<svg/onload=pwned=1>',
    '`<b onmouseover=pwned=1>`',
    '| <script>pwned=1</script> | b |\n|---|---|\n| c | [d](data:text/html,x) |',
    'The end',
  ]
  for (const payload of payloads) vendor.vendor.say(prompt, `\n\n${payload}`)
  vendor.vendor.finish(prompt)
  await expect.poll(() => answers(page)).toEqual([expect.stringContaining(ENDING.trim())])
  const inAnswer = (selector: string) => page.locator(`.answer ${selector}`).count()
  expect([await inAnswer('script'), await inAnswer('img'), await inAnswer('svg')]).toEqual([
    0, 0, 0,
  ])
  const hrefs = await page.evaluate(() =>
    Array.from(document.querySelectorAll<HTMLAnchorElement>('.answer a'), ({ href }) => href),
  )
  expect(hrefs).toEqual(['https://evil.example/a.png?secret'])
  expect(await page.evaluate(() => 'pwned' in globalThis)).toBe(false)
  expect(await refusedOn(page)).toEqual([])
})

test('texts of tools and errors are never markup', async () => {
  const { page } = await open(scripted)
  const payload = '<img src=x onerror="pwned=1"><script>pwned=1</script>'
  const body = { threadId: payload.replaceAll(' ', '_'), prompt: payload, model: payload }
  const submit = (fields: object) =>
    fetch(`${scripted.url}/api/v2/submit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(fields),
    })
  expect((await submit(body)).status).toBe(404)
  const call = {
    ...{ threadId: 'payloads', turnId: 'payloads', prompt: payload },
    model: 'scripted/client-tools',
    tools: [{ name: 'look', description: payload, parameters: { type: 'object' } }],
  }
  expect((await submit(call)).status).toBe(202)
  await page.goto(`${scripted.url}/?thread=payloads`)
  await page.getByRole('textbox', { name: 'Output of look' }).fill(payload)
  await page.getByRole('button', { name: 'Send output' }).click()
  await expect.poll(() => page.locator('.tool').innerText()).toContain('is done')
  await page.locator('.tool .card-head').click()
  expect(await page.locator('.tool pre').last().innerText()).toBe(payload)
  await expect.poll(() => answers(page)).toEqual([expect.stringContaining(payload)])
  await page.goto(`${scripted.url}/inspect/${encodeURIComponent('<script>pwned=1</script>')}`)
  await expect.poll(() => page.locator('.notice.error').innerText()).toContain('<script>')
  expect(await page.locator('img').count()).toBe(0)
  expect(await page.evaluate(() => 'pwned' in globalThis)).toBe(false)
  expect(await refusedOn(page)).toEqual([])
})

/** Two chunks of a Chat Completions server. */
function cassette(): Cassette {
  const chunk = (delta: object) =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta }] })}\n\n`
  const bytes = (text: string) => new TextEncoder().encode(text)
  const request = { method: 'POST', url: 'https://vendor.example/v1/chat/completions' }
  return {
    header: { format: CASSETTE_FORMAT, version: CASSETTE_VERSION, createdAt: 0, turnId: 'bug' },
    calls: [
      {
        number: 1,
        at: 0,
        request: { ...request, headers: {}, vendor: 'openai-chat' },
        response: { at: 1, status: 200, headers: {} },
        chunks: [
          { at: 10, bytes: bytes(chunk({ content: '<img src=x onerror=pwned=1>' })) },
          { at: 400, bytes: bytes(`${chunk({ content: ' more' })}data: [DONE]\n\n`) },
        ],
        end: { at: 401, reason: 'complete' },
      },
    ],
    events: [],
    outputs: [],
  }
}

describe('the inspector', () => {
  async function inspect() {
    const { context, page } = await open(scripted)
    await page.getByRole('button', { name: /See it think/ }).click()
    await page.getByRole('link', { name: /^Inspect$/ }).click()
    const beside = page.locator('.beside .connection')
    await expect.poll(() => beside.innerText()).toBe('Complete')
    expect(await faultsOf(page)).toEqual([])
    const address = await page.locator('.turn footer a').first().getAttribute('href')
    await page.goto(`${scripted.url}/${address}`)
    await expect.poll(() => page.locator('.connection').innerText()).toBe('Complete')
    return { context, page }
  }

  const fact = (page: Page, name: string) =>
    page.evaluate((wanted) => {
      const terms = Array.from(document.querySelectorAll('.totals dt'))
      return terms.find((term) => term.textContent === wanted)?.nextElementSibling?.textContent
    }, name)

  test('has the bytes that the server sends', async () => {
    const { page } = await inspect()
    const turnId = page.url().split('/').at(-1) ?? ''
    const sent = await (await fetch(`${scripted.url}/api/v2/stream/${turnId}`)).text()
    const frames = sent.split('\n\n').filter((frame) => frame.includes('data: '))
    const shown = await page.locator('.columns section:last-child pre').textContent()
    const last = frames.slice(-20).map((frame) => `${frame}\n\n`)
    expect(shown).toBe(last.join(''))
    expect(await fact(page, 'events')).toBe(`${frames.length} of ${frames.length}`)
    expect(await fact(page, 'shown')).toBe(await fact(page, 'received'))
    expect(await refusedOn(page)).toEqual([])
  })

  test('is steered by keys, and a link shows the same instant', async () => {
    const { context, page } = await inspect()
    await page.locator('h1').click()
    for (const key of ['Home', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft']) {
      await page.locator('body').press(key)
    }
    await expect.poll(() => fact(page, 'events')).toMatch(/^3 of /)
    const other = await openTab(context, page.url())
    await expect.poll(() => fact(other, 'events')).toMatch(/^3 of /)
    await other.getByRole('button', { name: 'End' }).click()
    await expect.poll(() => fact(other, 'events')).toMatch(/^(\d+) of \1$/)
    expect(await faultsOf(other)).toEqual([])
  })

  test('tells what a client gets that comes back', async () => {
    const { page } = await inspect()
    await page.locator('h1').click()
    await page.locator('body').press('Home')
    await page.locator('summary').click()
    const rows = await page.locator('.resume tbody tr').allInnerTexts()
    expect(rows).toEqual([
      expect.stringMatching(/^v2\s.*last event id\s+\d+ frames, \d+ bytes$/),
      expect.stringMatching(/^xapi\s.*last snapshot\s+\d+ frames, \d+ bytes$/),
      expect.stringMatching(/^chat-completions\s.*cannot resume/),
      expect.stringMatching(/^openai-responses\s.*sequence number\s+\d+ frames, \d+ bytes$/),
      expect.stringMatching(/^anthropic-messages\s.*joins/),
    ])
    expect(await page.locator('.changes ins').count()).toBeGreaterThan(1)
  })

  test('opens a cassette from disk, with what the provider sent', async () => {
    const context = await newContext()
    const page = await openTab(context, `${scripted.url}/inspect`)
    const requests: string[] = []
    context.on('request', (request) => requests.push(request.url()))
    await page.locator('input[type=file]').setInputFiles({
      name: 'bug.cassette.jsonl',
      mimeType: 'application/jsonl',
      buffer: Buffer.from([...encodeCassette(cassette())].join('')),
    })
    await expect.poll(() => page.locator('h1').innerText()).toBe('Turn bug')
    await expect
      .poll(() => page.locator('.columns h2').allInnerTexts())
      .toContain('From the provider')
    const sent = page.locator('.columns section:nth-child(2) pre')
    await page.locator('h1').click()
    await page.locator('body').press('End')
    expect(await sent.textContent()).toContain('[DONE]')
    await page.locator('body').press('Home')
    expect(await sent.textContent()).toContain('<img src=x onerror=pwned=1>')
    expect(await page.locator('main img').count()).toBe(0)
    expect(requests.filter((url) => /\/(?:xapi|api|v1)\//.test(url))).toEqual([])
  })

  test('reports a file that is not a cassette', async () => {
    const page = await openTab(await newContext(), `${scripted.url}/inspect`)
    const buffer = Buffer.from('{"format":"<b>other</b>"}\n')
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.jsonl', mimeType: 'application/jsonl', buffer })
    await expect.poll(() => page.locator('.notice.error').innerText()).toContain('line 1')
  })

  test.each([
    ['runs', false],
    ['has ended', true],
  ])('starts over when another turn with its id %s', async (_name, isOver) => {
    const id = `again-${isOver}`
    const [first, second] = [`First ${id}`, `Second ${id}`]
    const submit = async (prompt: string) => {
      await fetch(`${vendor.url}/api/v2/submit`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ turnId: id, threadId: id, prompt }),
      })
      await expect.poll(() => vendor.vendor.open.has(prompt)).toBe(true)
    }
    await submit(first)
    // More events than the second turn has: the cursor is past its end.
    for (let at = 0; at < 20; at++) vendor.vendor.say(first, ', once more')
    const context = await newContext()
    const page = await openTab(context, `${vendor.url}/inspect/${id}`)
    await expect.poll(() => fact(page, 'received')).toBe('271 characters')
    await context.setOffline(true)
    await fetch(`${vendor.url}/api/v2/threads/${id}`, { method: 'DELETE' })
    await submit(second)
    if (isOver) {
      vendor.vendor.finish(second)
      await (await fetch(`${vendor.url}/api/v2/stream/${id}`)).text()
    }
    await context.setOffline(false)
    const text = isOver ? BEGINNING + ENDING : BEGINNING
    await expect.poll(() => fact(page, 'received')).toBe(`${text.length} characters`)
    vendor.vendor.finish(second)
    await expect.poll(() => page.locator('.connection').innerText()).toBe('Complete')
    const sent = await (await fetch(`${vendor.url}/api/v2/stream/${id}`)).text()
    const { length } = [...sent.matchAll(/^data: /gm)]
    expect(await fact(page, 'events')).toBe(`${length} of ${length}`)
  })

  test('reports an unknown turn', async () => {
    const context = await newContext()
    const page = await openTab(context, `${scripted.url}/inspect/nothing`)
    await expect.poll(() => page.locator('.notice.error').innerText()).toContain('Unknown turn')
  })
})
