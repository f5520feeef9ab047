// Verifies the stores in the directories that it is given, or reads all their turns, and writes what it found as a JSON
// line for each.
//
//     node damage-child.mjs verify|read <directory>…
import { writeSync } from 'node:fs'

/** @type {typeof import('../../../src/log/embedded/open.ts')} */
const { openEmbeddedLog } = await import(
  new URL('../../../dist/log/embedded/open.js', import.meta.url).href
)

/** @type {typeof import('../../../src/log/embedded/inspect.ts')} */
const { inspectEmbeddedLog } = await import(
  new URL('../../../dist/log/embedded/inspect.js', import.meta.url).href
)

const THREADS = ['one', 'two']
const TURNS = ['a', 'b', 'c', 'd', 'open']

/** @param {() => Promise<unknown>} read */
async function answer(read) {
  try {
    return { value: (await read()) ?? null }
  } catch (error) {
    const { code, message } = /** @type {{ code?: string, message: string }} */ (error)
    return { error: code ?? message }
  }
}

/**
 * @param {import('../../../../core/src/log/turn-log.ts').TurnLog} log
 * @param {string} turnId
 */
async function events(log, turnId) {
  const done = new AbortController()
  const tail = log.tail(turnId, 'events', '0-0', done.signal)
  void tail.caughtUp.then(() => done.abort())
  const found = []
  for await (const record of tail) found.push(record)
  return found
}

/** @param {string} directory */
async function readAll(directory) {
  /** @type {Record<string, unknown>} */
  const answers = {}
  const log = await openEmbeddedLog({ directory, sync: 'system', retentionMs: 1e12 })
  for (const turnId of TURNS) {
    answers[`record ${turnId}`] = await answer(() => log.getTurn(turnId))
    answers[`events ${turnId}`] = await answer(() => events(log, turnId))
    answers[`snapshot ${turnId}`] = await answer(() => log.snapshot(turnId))
    answers[`response ${turnId}`] = await answer(() => log.getResponse(turnId))
  }
  for (const threadId of THREADS) {
    answers[`thread ${threadId}`] = await answer(() => log.getThread(threadId))
    answers[`turns of ${threadId}`] = await answer(() => log.listTurns(threadId))
  }
  answers['threads'] = await answer(() => log.listThreads())
  await log.close()
  return answers
}

/** @param {string} directory */
async function verify(directory) {
  const { verification } = await inspectEmbeddedLog(directory)
  return { findings: verification?.findings }
}

const [, , mode, ...directories] = process.argv
for (const directory of directories) {
  const read = mode === 'verify' ? verify : readAll
  const { value = {}, error } = await answer(() => read(directory))
  writeSync(1, `${JSON.stringify({ directory, opening: error, answers: value })}\n`)
}
