/** Approvals of real servers, answered by other processes, and servers that are killed meanwhile. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { type Process, turnstream } from '../process.ts'
import { untilTrue } from '../support.ts'

const SLOW = { tags: ['slow'], timeout: 90_000 }

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-approvals-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
})

interface Gateway {
  readonly url: string
  readonly server: Process
}

/** A tool that notes each run in a file, and ends only when it is told to. */
const TOOL = `import { appendFileSync } from 'node:fs'
export default [{
  name: 'work',
  parameters: { type: 'object' },
  execute: () => new Promise(() => appendFileSync('runs', 'run ')),
}]`

async function serve(store = 'store'): Promise<Gateway> {
  writeFileSync(join(folder, 'tools.mjs'), TOOL)
  const tools = [{ module: './tools.mjs', needsApproval: true }]
  const settings = { port: 0, store, scriptedSpeed: 0, lease: '1s', tools }
  writeFileSync(join(folder, 'turnstream.config.json'), JSON.stringify(settings))
  const server = turnstream(['serve'], { cwd: folder })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  return { url, server }
}

async function post(url: string, body: object): Promise<[status: number, json: unknown]> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return [response.status, await response.json()]
}

interface Output {
  readonly type: string
  readonly content?: string
  readonly approval?: { readonly id: string }
}

async function outputsOf({ url }: Gateway): Promise<Output[]> {
  const turn = await fetch(`${url}/xapi/turns/t`)
  return ((await turn.json()) as { outputs?: Output[] }).outputs ?? []
}

/** Starts a turn and waits until it asks for approval. Returns the path that answers. */
async function ask(gateway: Gateway, model: string, reader = gateway): Promise<string> {
  const body = { model, prompt: 'work {}', turnId: 't' }
  expect((await post(`${gateway.url}/api/v2/submit`, body))[0]).toBe(202)
  let id: string | undefined
  await untilTrue(async () => {
    id = (await outputsOf(reader)).find(({ approval }) => approval !== undefined)?.approval?.id
    return id !== undefined
  })
  return `/api/v2/runs/t/approvals/${id}`
}

async function ended({ url }: Gateway): Promise<Output[]> {
  const stream = await fetch(`${url}/xapi/turns/t/stream`)
  await stream.text() // it ends with the turn
  return outputsOf({ url } as Gateway)
}

const stores = {
  'the embedded store': async () => {
    const gateway = await serve()
    return [gateway, gateway] as const
  },
  'two gateways on one Redis': async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    return Promise.all([serve(redis.url), serve(redis.url)])
  },
}

const decisions = [
  [true, 'approved', 'The tool answered: The postcard to Lisbon was sent (not really).'],
  [false, 'declined', 'The tool failed: The call was declined: too expensive'],
] as const

describe.each(Object.entries(stores))('V8 on %s', (_name, start) => {
  test.each(decisions)(
    'another process answers: approved %s',
    SLOW,
    async (approved, status, said) => {
      const [owner, other] = await start()
      const path = await ask(owner, 'scripted/approval', other)
      const answer = { approved, reason: 'too expensive' }
      const [code, json] = await post(`${other.url}${path}`, answer)
      expect([code, json]).toMatchObject([200, { status, reason: 'too expensive' }])
      for (const gateway of [owner, other]) {
        const outputs = await ended(gateway)
        expect(outputs).toContainEqual(
          expect.objectContaining({ type: 'tool_call', approval: json }),
        )
        expect(outputs.at(-2)?.content).toBe(said)
        expect(await post(`${gateway.url}${path}`, { approved: !approved })).toMatchObject([
          409,
          { error: { code: 'APPROVAL_ANSWERED', approval: json } },
        ])
      }
    },
  )
})

describe('V8 kill -9', () => {
  test('while a turn waits: it ends as an orphan, and the approval is closed', SLOW, async () => {
    const first = await serve()
    const path = await ask(first, 'scripted/server-tools')
    first.server.child.kill('SIGKILL')
    await first.server.ended
    const second = await serve()
    const outputs = await ended(second)
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'PRODUCER_LOST' } })
    expect(outputs.at(-2)).toMatchObject({ status: 'error', approval: { status: 'requested' } })
    const late = await post(`${second.url}${path}`, { approved: true })
    expect(late).toMatchObject([409, { error: { code: 'APPROVAL_CLOSED' } }])
    expect(existsSync(join(folder, 'runs'))).toBe(false)
  })

  test('while the approved tool runs: nothing runs twice', SLOW, async () => {
    const first = await serve()
    const path = await ask(first, 'scripted/server-tools')
    expect((await post(`${first.url}${path}`, { approved: true }))[0]).toBe(200)
    await untilTrue(() => existsSync(join(folder, 'runs')))
    first.server.child.kill('SIGKILL')
    await first.server.ended
    const second = await serve()
    const outputs = await ended(second)
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'PRODUCER_LOST' } })
    expect(outputs.at(-2)).toMatchObject({ status: 'error', approval: { status: 'approved' } })
    const late = await post(`${second.url}${path}`, { approved: false })
    expect(late).toMatchObject([409, { error: { code: 'APPROVAL_ANSWERED' } }])
    expect(readFileSync(join(folder, 'runs'), 'utf8')).toBe('run ')
  })

  test('of the owner on Redis: the other gateway ends the turn', SLOW, async () => {
    const [owner, other] = await stores['two gateways on one Redis']()
    const path = await ask(owner, 'scripted/approval', other)
    owner.server.child.kill('SIGKILL')
    const outputs = await ended(other)
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'PRODUCER_LOST' } })
    const late = await post(`${other.url}${path}`, { approved: true })
    expect(late).toMatchObject([409, { error: { code: 'APPROVAL_CLOSED' } }])
  })
})
