/** A gateway that is killed in the middle of an answer, and started again: what its clients see, then and later. */
import { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { turnstream } from '../../cli/process.ts'
import { folderOfTest } from '../../log/embedded/support.ts'
import { clientOf, HELLO } from './stage.ts'

// Starting a process takes a while on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 60_000 }

let redis: Awaited<ReturnType<typeof startRedis>>
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

const LISTENING = /^turnstream listening on (http:\/\/\S+)$/m
const ASK = { model: 'scripted/long', messages: HELLO, stream: true as const }
const KEY = { headers: { 'idempotency-key': 'key' } }

async function serve(store: string, cwd: string) {
  const args = ['serve', '--port', '0', '--store', store, '--lease', '1s']
  const server = turnstream(args, { cwd })
  const [, url = ''] = await server.printed(LISTENING)
  return { ...server, url }
}

/** Reads a stream until it breaks off; `onText` hears what there is so far. */
async function follow(url: string, onText: (text: string) => void = () => {}) {
  let text = ''
  try {
    for await (const chunk of await clientOf({ url }).chat.completions.create(ASK, KEY)) {
      text += chunk.choices[0]?.delta.content ?? ''
      onText(text)
    }
  } catch (error) {
    return { text, error }
  }
  return { text, error: undefined }
}

describe.each([
  ['in a directory', () => 'data'],
  ['in Redis', () => redis.url],
])('kill -9 with turns %s', { ...PATIENCE, tags: ['slow'] }, (_name, storeOf) => {
  test('never looks like a complete answer, and the turn is stored with its real outcome', async () => {
    const cwd = folderOfTest()
    const first = await serve(storeOf(), cwd)
    const seen = await follow(first.url, (text) => {
      if (text.length > 100) first.child.kill('SIGKILL')
    })
    expect(seen.error).toBeInstanceOf(Error)
    await first.ended

    const { url } = await serve(storeOf(), cwd)
    const tail = turnstream(['tail', 'key', '--url', url], { cwd })
    expect(await tail.ended).toBe(1)
    expect(tail.stdout()).toMatch(/turn_error +PRODUCER_LOST: /)
    const raw = await (await fetch(`${url}/api/v2/stream/key`)).text()
    expect(raw).toContain('"type":"response_error"')
    expect(raw.match(/PRODUCER_LOST/g)?.length).toBeGreaterThan(0)

    const again = await follow(url)
    expect(again.text.startsWith(seen.text)).toBe(true)
    expect(again.error).toBeInstanceOf(APIError)
    expect(again.error).toMatchObject({ code: 'PRODUCER_LOST' })
    const whole = clientOf({ url }).chat.completions.create({ ...ASK, stream: false }, KEY)
    await expect(whole).rejects.toMatchObject({ status: 500, code: 'PRODUCER_LOST' })
  })
})
