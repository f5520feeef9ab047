/** Turns leave one store and come into another: nothing is lost, nothing is there twice. */

import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import {
  delta,
  deltas,
  message,
  responseDone,
  turnComplete,
} from '../../../../conformance/src/turn-log/texts.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { UsageError } from '../../../src/cli/command.ts'
import { exportCommand } from '../../../src/cli/transfer/export.ts'
import { readLines } from '../../../src/cli/transfer/format.ts'
import { importCommand } from '../../../src/cli/transfer/import.ts'
import { checkTablePages, DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { logOf } from '../../../src/log/tenants.ts'
import { openEmbeddedLog, openRedisLog } from '../../../src/server.ts'
import { folderOfTest } from '../../log/embedded/support.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { turnstream } from '../process.ts'

vi.setConfig({ testTimeout: 60_000 })

const MAIN = new URL('../../../dist/cli/main.js', import.meta.url).pathname
const LEASE_MS = 60_000
/** Occurs verbatim in the file. */
const marker = (turnId: string) => `marker-of-${turnId}-`
/** A terminal would act on these. */
const CONTROLS = 'é\u0007\u009b\u202e\ud83d\ude00'

async function addTurn(
  log: TurnLog,
  turnId: string,
  threadId: string,
  { isOpen = false, ...more }: { isOpen?: boolean; replaces?: string; contentMs?: number } = {},
) {
  const runId = `run-of-${turnId}`
  const request = `request of ${turnId}`
  const turn = { turnId, runId, threadId, owner: 'test', request, ...more }
  const lease = await log.create(turn, LEASE_MS)
  await appendTo(log, lease, 'events', deltas(runId, 1, 250))
  await appendTo(log, lease, 'events', deltas(runId, 251, 399))
  if (isOpen) return
  const items = ['b', 'a', 'b', 'a', 'c']
  for (const [index, item] of items.entries()) {
    const data = message(turnId, item, `${CONTROLS}${index}${marker(turnId).repeat(300)}`)
    await appendTo(log, lease, 'processed', [{ seq: index + 1, data }])
  }
  const response = JSON.stringify({ id: turnId })
  const last = [
    { seq: 400, data: delta(runId, 400, CONTROLS) },
    { seq: 401, data: responseDone(runId, 401) },
  ]
  await appendTo(log, lease, 'events', last, { seal: true, response })
  await appendTo(log, lease, 'processed', [{ seq: 6, data: turnComplete(turnId) }], { seal: true })
}

const THREADS = [
  ['default', 'one', ['t1', 't2', 't3']],
  ['default', 'two', ['t4']],
  ['acme', 'one', ['t1']],
] as const

async function fill(log: TurnLog): Promise<void> {
  for (const [tenant, threadId, turns] of THREADS) {
    const own = logOf(log, tenant)
    await own.putThread({ threadId, title: `title of ${threadId}`, metadata: { tenant } })
    for (const turnId of turns) await addTurn(own, turnId, threadId)
  }
}

async function use<T>(directory: string, task: (log: TurnLog) => Promise<T>): Promise<T> {
  const log = await openEmbeddedLog({ directory, sync: 'system', commitIntervalMs: 0 })
  try {
    return await task(log)
  } finally {
    await log.close()
  }
}

async function filledStore(): Promise<string> {
  const directory = join(folderOfTest(), 'data')
  await use(directory, fill)
  return directory
}

async function turnContent(log: TurnLog, turnId: string) {
  const events: string[] = []
  for await (const record of log.tail(turnId, 'events', '0-0', new AbortController().signal)) {
    if ('data' in record) events.push(record.data)
  }
  const { records } = await log.snapshot(turnId)
  const { runId, threadId, ordinal, request, status } = (await log.getTurn(turnId)) ?? {}
  return {
    turn: { runId, threadId, ordinal, request, status },
    events,
    outputs: records.map(({ offset: _offset, firstSeq: _firstSeq, ...record }) => record),
    response: await log.getResponse(turnId),
  }
}

async function contentOf(log: TurnLog) {
  const found: Record<string, unknown> = {}
  for (const [tenant, threadId, turns] of THREADS) {
    const own = logOf(log, tenant)
    const { title, metadata } = (await own.getThread(threadId)) ?? {}
    const listed = await own.listTurns(threadId)
    const order = listed.items.map(({ turnId }) => turnId)
    found[`${tenant} ${threadId}`] = { title, metadata, order }
    found[`threads of ${tenant}`] = (await own.listThreads()).items.map((each) => each.threadId)
    for (const turnId of turns) found[`${tenant} ${turnId}`] = await turnContent(own, turnId)
  }
  return found
}

async function runCommand(
  command: typeof exportCommand,
  args: readonly string[],
  input: readonly string[] = [],
) {
  const bytes = input.map((text) => Buffer.from(text))
  const { terminal, output, errors } = fakeTerminal(bytes, { clock: systemClock })
  const code = await command.run([...args], terminal)
  return { code, output: output(), errors: errors() }
}

const exportFrom = (store: string, ...args: string[]) =>
  runCommand(exportCommand, ['--store', store, ...args])
const importInto = (store: string, ...input: string[]) =>
  runCommand(importCommand, ['--store', store, '--json'], input)

const counts = (imported: number, skipped: number, refused: number, complete = true) =>
  `${JSON.stringify({ imported, skipped, refused, complete })}\n`

describe('export and import', () => {
  test('leave out turns whose content is deleted soon: a file would outlive it', async () => {
    const directory = join(folderOfTest(), 'data')
    await use(directory, async (log) => {
      await addTurn(log, 'kept', 'one')
      await addTurn(log, 'brief', 'one', { contentMs: 600_000 })
    })
    const { code, output } = await exportFrom(directory)
    expect(code).toBe(0)
    expect(output).toContain(marker('kept'))
    expect(output).not.toContain('brief')
    expect(output).toContain('"expired":1')
  })

  test('copy everything into an empty store, and can be repeated', async () => {
    const from = await filledStore()
    const to = join(folderOfTest(), 'copy')
    const { code, output, errors } = await exportFrom(from)
    expect([code, errors]).toEqual([
      0,
      '5 turns of 3 threads exported, 0 in progress and 0 damaged skipped\n',
    ])
    const lines = output.trimEnd().split('\n')
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ format: 'turnstream-export', version: 1 })
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ end: { threads: 3, turns: 5 } })
    expect(await importInto(to, output)).toEqual({ code: 0, output: counts(5, 0, 0), errors: '' })
    const expected = await use(from, contentOf)
    expect(await use(to, contentOf)).toEqual(expected)
    // In pieces that end anywhere.
    const pieces = output.match(/[\s\S]{1,65536}/gu) ?? []
    expect(await importInto(to, ...pieces)).toMatchObject({ code: 0, output: counts(0, 5, 0) })
    expect(await use(to, contentOf)).toEqual(expected)
  })

  test('V14 keep what was replaced, also by a turn that is gone', async () => {
    const from = join(folderOfTest(), 'data')
    await use(from, async (log) => {
      for (const turnId of ['a', 'b', 'c']) await addTurn(log, turnId, 'thread')
      await addTurn(log, 'd', 'thread', { replaces: 'b' })
      await addTurn(log, 'e', 'thread')
      await addTurn(log, 'f', 'thread', { replaces: 'e' })
      await log.deleteTurn('f')
      await log.deleteTurn('b')
    })
    const { output } = await exportFrom(from)
    const to = join(folderOfTest(), 'copy')
    for (const answer of [counts(4, 0, 0), counts(0, 4, 0)]) {
      expect(await importInto(to, output)).toMatchObject({ code: 0, output: answer })
      await use(to, async (log) => {
        const { items } = await log.listTurns('thread', { replaced: true })
        expect(items.map(({ turnId, replacedBy }) => [turnId, replacedBy])).toEqual([
          ['a', undefined],
          ['c', 'd'],
          ['d', undefined],
          ['e', 'f'],
        ])
        expect((await log.listTurns('thread')).items).toHaveLength(2)
      })
    }
  })

  test('work as processes through a pipe', { tags: ['slow'] }, async () => {
    const from = await filledStore()
    const to = join(folderOfTest(), 'copy')
    const main = `'${process.execPath}' '${MAIN}'`
    const script = `${main} export --store '${from}' | ${main} import --store '${to}'`
    const { stdout, status } = spawnSync('sh', ['-c', script], {
      encoding: 'utf8',
      cwd: dirname(to),
    })
    expect([status, stdout]).toEqual([0, '5 turns imported, 0 skipped, 0 refused\n'])
    expect(await use(to, contentOf)).toEqual(await use(from, contentOf))
  })

  test('copy from the embedded store to Redis and back', { tags: ['slow'] }, async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const from = await filledStore()
    const back = join(folderOfTest(), 'back')
    const all = await exportFrom(from, '--tenant', 'default')
    for (const expected of [counts(4, 0, 0), counts(0, 4, 0)]) {
      expect(await importInto(redis.url, all.output)).toMatchObject({ code: 0, output: expected })
    }
    const log = await openRedisLog({ url: redis.url })
    const found = await turnContent(log, 't2')
    await log.close()
    expect(found).toEqual(await use(from, (own) => turnContent(own, 't2')))
    const { output } = await exportFrom(redis.url)
    expect(await importInto(back, output)).toMatchObject({ output: counts(4, 0, 0) })
    const threads = async (own: TurnLog) =>
      (await own.listThreads()).items.map(({ threadId }) => threadId)
    expect(await use(back, threads)).toEqual(await use(from, threads))
    const t3 = (own: TurnLog) => turnContent(own, 't3')
    expect(await use(back, t3)).toEqual(await use(from, t3))
  })

  test('survive the deletion of a turn during an export', { tags: ['slow'] }, async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const log = await openRedisLog({ url: redis.url })
    onTestFinished(() => log.close())
    await fill(log)
    let text = ''
    const write = async (line: string) => {
      text += line
      // In the middle of a turn, and before another.
      if (!line.includes('"word 1 "') || !line.includes('run-of-t1')) return
      await Promise.all([log.deleteTurn('t1'), log.deleteTurn('t2')])
    }
    const { terminal } = fakeTerminal([], { clock: systemClock, write })
    expect(await exportCommand.run(['--store', redis.url], terminal)).toBe(0)
    const to = join(folderOfTest(), 'copy')
    expect(await importInto(to, text)).toMatchObject({ code: 1 })
    expect(await use(to, (own) => own.getTurn('t4'))).toMatchObject({ sealed: true })
  })

  test('make cursors of the old store start over in the new one', async () => {
    const from = await filledStore()
    const to = join(folderOfTest(), 'copy')
    await importInto(to, (await exportFrom(from)).output)
    const first = await use(to, async (log) => {
      const tail = log.tail('t1', 'processed', '1-2', new AbortController().signal)
      for await (const record of tail) return record
      return undefined
    })
    expect(first).toEqual({ resync: 'foreign' })
  })

  test('are limited to one tenant or thread', async () => {
    const from = await filledStore()
    const turns = async (...args: string[]) => {
      const { output } = await exportFrom(from, ...args)
      return output
        .match(/^\{"turn":\{"tenant":"\w+","turnId":"\w+"/gm)
        ?.map((line) => line.slice(19))
    }
    expect(await turns('--tenant', 'acme')).toEqual(['acme","turnId":"t1"'])
    expect(await turns('--thread', 'two')).toEqual(['default","turnId":"t4"'])
  })
})

describe('export', () => {
  test('reads a store whose lists are damaged, and says that turns may be missing', async () => {
    const directory = await filledStore()
    const file = join(directory, DATA_FILE)
    const whole = readFileSync(file)
    for (let page = 2; page < whole.length / 4096; page++) {
      const copy = Buffer.from(whole)
      // Its own number, which LMDB does not check.
      copy.writeUInt32LE(page + 1, page * 4096)
      writeFileSync(file, copy)
      const error = await checkTablePages(file).catch(String)
      if (error?.includes('of table recency is damaged')) break
    }
    await expect(openEmbeddedLog({ directory })).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
    const { code, errors } = await exportFrom(directory)
    expect(code).toBe(1)
    expect(errors).toMatch(/recency is damaged\. Threads and turns may be missing/)
    expect(errors).toContain('5 turns of 3 threads exported, 0 in progress and 0 damaged skipped')
  })

  test('skips damaged turns and names them', async () => {
    const from = await filledStore()
    const file = join(from, DATA_FILE)
    const bytes = readFileSync(file)
    for (const turnId of ['t2', 't4']) {
      // Every copy, also those in free pages.
      const text = marker(turnId).repeat(20)
      for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at)) {
        bytes.write('x', at)
      }
    }
    writeFileSync(file, bytes)
    const { code, output, errors } = await exportFrom(from)
    expect(code).toBe(1)
    expect(errors).toMatch(
      /^turnstream: turn t2 of tenant default is damaged and was skipped: .+$/m,
    )
    expect(errors).toContain('turn t4')
    expect(errors).toContain('3 turns of 3 threads exported, 0 in progress and 2 damaged skipped\n')
    const to = join(folderOfTest(), 'copy')
    expect(await importInto(to, output)).toMatchObject({ code: 0, output: counts(3, 0, 0) })
    const t3 = (log: TurnLog) =>
      turnContent(log, 't3').then(({ events, outputs }) => [events, outputs])
    expect(await use(to, t3)).toEqual(await use(from, t3))
  })

  test('skips turns in progress and names them', async () => {
    const from = await filledStore()
    await use(from, (log) => addTurn(log, 'open', 'three', { isOpen: true }))
    const { code, output, errors } = await exportFrom(from)
    expect(code).toBe(0)
    expect(errors).toContain(
      'turnstream: turn open of tenant default is in progress and was skipped',
    )
    expect(output).not.toContain('run-of-open')
  })

  test('refuses a store in use, a missing one, and memory', async () => {
    const from = await filledStore()
    await use(from, async () => {
      const { code, output } = await exportFrom(from, '--json')
      expect([code, JSON.parse(output)]).toMatchObject([1, { error: { code: 'STORE_LOCKED' } }])
    })
    const nowhere = join(folderOfTest(), 'nowhere')
    expect((await exportFrom(nowhere)).code).toBe(1)
    expect(readdirSync(join(nowhere, '..'))).toEqual([])
    await expect(exportFrom('memory')).rejects.toThrow(UsageError)
  })
})

describe('import', () => {
  test('refuses a turn that differs from the stored one', async () => {
    const from = await filledStore()
    const to = join(folderOfTest(), 'copy')
    const { output } = await exportFrom(from)
    await importInto(to, output)
    const before = await use(to, contentOf)
    for (const [old, other] of [
      ['"word 300 "', '"word"'],
      ['request of t2', 'another'],
      ['"response":"{', '"response":" {'],
      ['{"output":', '{"sealed":true}\n{"output":'],
    ] as const) {
      expect(output).toContain(old)
      const { code, output: told, errors } = await importInto(to, output.replace(old, other))
      expect([code, told]).toEqual([1, counts(0, 4, 1)])
      expect(errors).toMatch(
        /^turnstream: turn t\d of tenant \w+ is refused: the store has a different turn/,
      )
    }
    expect(await use(to, contentOf)).toEqual(before)
  })

  test('removes a truncated turn and reports an incomplete export', async () => {
    const { output } = await exportFrom(await filledStore())
    const to = join(folderOfTest(), 'copy')
    const cut = output.slice(0, output.lastIndexOf('{"sealed"'))
    const { code, output: told } = await importInto(to, cut)
    expect([code, told]).toEqual([1, counts(4, 0, 1, false)])
    // What is missing comes with the whole export.
    expect(await importInto(to, output)).toMatchObject({ code: 0, output: counts(1, 4, 0) })
  })

  test('names the unreadable line and leaves no partial turn', async () => {
    const { output } = await exportFrom(await filledStore())
    const to = join(folderOfTest(), 'copy')
    const lines = output.split('\n')
    for (const bad of [
      '{"event":{}}',
      '{"turn":{"tenant":"A"}}',
      '{',
      '[]',
      '{"event":{},"x":1}',
    ]) {
      const text = [...lines.slice(0, 9), bad, ...lines.slice(9)].join('\n')
      await expect(importInto(to, text)).rejects.toThrow('line 10 of the input: ')
      expect(await use(to, (log) => log.listTurns('one'))).toEqual({ items: [] })
    }
  })

  test.each(['', '{}\n', 'text', '{"format":"turnstream-export","version":2}\n'])(
    'refuses %j without creating a store',
    async (text) => {
      const folder = folderOfTest()
      await expect(importInto(join(folder, 'copy'), text)).rejects.toThrow(UsageError)
      expect(readdirSync(folder)).toEqual([])
    },
  )

  test('exits at once on failure while its input stays open', async () => {
    const folder = folderOfTest()
    writeFileSync(join(folder, 'file'), '')
    const start = (store: string, text: string) => {
      const { child, ended } = turnstream(['import', '--store', store], { cwd: folder })
      child.stdin?.write(text)
      return ended
    }
    expect(await start('copy', 'text\n')).toBe(2)
    const header = '{"format":"turnstream-export","version":1}\n'
    expect(await start('file/copy', `${header}{"sealed":true}\n`)).toBe(1)
  })

  test('resumes after an interrupted import', { tags: ['slow'] }, async () => {
    const from = await filledStore()
    const to = join(folderOfTest(), 'copy')
    const { output } = await exportFrom(from)
    await use(to, async (log) => {
      const turn = { turnId: 't1', runId: 'run-of-t1', threadId: 'one' }
      const lease = await log.create({ ...turn, owner: 'turnstream import' }, LEASE_MS)
      await appendTo(log, lease, 'events', deltas('another', 1, 5))
    })
    expect(await importInto(to, output)).toMatchObject({ code: 0, output: counts(5, 0, 0) })
    const t1 = (log: TurnLog) => turnContent(log, 't1').then(({ events }) => events)
    expect(await use(to, t1)).toEqual(await use(from, t1))
  })

  test('refuses a turn that cannot be stored and imports the others', async () => {
    const { output } = await exportFrom(await filledStore())
    const to = join(folderOfTest(), 'copy')
    // Its last event does not end a turn.
    const text = output.replace(/^\{"event":.*"response_done".*\n/m, '')
    const { code, output: told } = await importInto(to, text)
    expect([code, told]).toEqual([1, counts(4, 0, 1)])
  })
})

test('lines have a maximum size', async () => {
  const read = async (...chunks: string[]) => {
    const found: string[] = []
    async function* input() {
      for (const chunk of chunks) yield Buffer.from(chunk)
    }
    for await (const line of readLines(input(), 8)) found.push(line)
    return found
  }
  expect(await read('one\ntw', 'o\n\nthr', 'ee')).toEqual(['one', 'two', '', 'three'])
  await expect(read('one\n12345', '6789')).rejects.toThrow(
    new UsageError('line 2 of the input: longer than 8 characters'),
  )
})
