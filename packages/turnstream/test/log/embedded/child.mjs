// A process that uses a store, as it is built. It writes a JSON line for everything that happens to it.
//
//     node child.mjs <what> <directory> [<options as JSON>]
import { mkdtempSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { delta } from '@turnstream/conformance/internal/turn-log/texts'

const built = new URL('../../../dist/', import.meta.url)
/** @type {typeof import('../../../src/log/embedded/open.ts')} */
const { openEmbeddedLog } = await import(new URL('log/embedded/open.js', built).href)

const [what = '', directory = '', json = '{}'] = process.argv.slice(2)
/** @type {{ uid?: number, turns?: number, chars?: number, sync?: 'commit' | 'system' }} */
const { uid, turns = 1, chars = 8, sync = 'commit' } = JSON.parse(json)

/**
 * Waits until the report has left the process. `process.stdout` would keep it when the reader is slow,
 * and it would die with the process: more would then be kept than the reader was told.
 * @param {object} report
 */
function say(report) {
  writeSync(1, `${JSON.stringify(report)}\n`)
}

/** @param {unknown} error */
function codeOf(error) {
  const { code, message } = /** @type {{ code?: string, message: string }} */ (error)
  return { code, message }
}

/** Appends one event after the other to a turn, until that fails. @param {string} turnId */
async function write(turnId) {
  const lease = await log.create({ turnId, threadId: turnId, owner: 'child' }, 60_000)
  const writer = log.open(lease, 'events', { retryForMs: 0 })
  for (let seq = 1; ; seq++) {
    writer.write(JSON.parse(delta(turnId, seq, 'x'.repeat(chars))))
    await writer.flush()
    say({ turnId, seq })
  }
}

/** Adds notes to one key, and adds and takes those of another, until that fails. */
async function note() {
  for (let seq = 1; ; seq++) {
    await log.keyedRecords.add('added', String(seq), 600_000)
    say({ turnId: 'added', seq })
    await log.keyedRecords.add('taken', String(seq), 600_000)
    await log.keyedRecords.consume('taken')
    say({ turnId: 'taken', seq })
  }
}

/**
 * Opens a store first, which loads the rest of the code: the other user may be unable to read this clone.
 * @param {number} uid
 */
async function becomeUser(uid) {
  const other = mkdtempSync(join(tmpdir(), 'turnstream-child-'))
  const first = await openEmbeddedLog({ directory: other })
  await first.close()
  rmSync(other, { recursive: true })
  process.setuid?.(uid)
}

/** @type {import('../../../../core/src/log/turn-log.ts').TurnLog} */
let log
try {
  if (uid !== undefined) await becomeUser(uid)
  log = await openEmbeddedLog({ directory, sync, commitIntervalMs: 0 })
  say({ open: process.pid })
  if (what === 'write') {
    await Promise.all(Array.from({ length: turns }, (_, index) => write(`turn-${index}`)))
  } else if (what === 'note') {
    await note()
  } else {
    // Until the other end is closed.
    process.stdin.resume()
    await new Promise((resolve) => process.stdin.once('end', resolve))
  }
  await log.close()
} catch (error) {
  say({ error: codeOf(error) })
  process.exit(1)
}
