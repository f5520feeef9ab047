// What the store acknowledged to a process that will be killed. Written to a file at once, because that survives the
// process. An acknowledgement that is not in the file is not verified.
import { hash } from 'node:crypto'
import { openSync, readFileSync, writeSync } from 'node:fs'

/**
 * - `creating` and `created`: the number of a turn, before and after `create`
 * - `events`: a turn, the `seq` up to which the log was acknowledged, whether it was sealed
 * - `processed`: a turn, `seq`, key and digest of one record, whether it sealed the log
 * - `ended`: the tenant and the id of an orphan that this process has ended
 * - `failed`: something that must not happen
 * @typedef {['creating' | 'created', number]
 *   | ['events', number, number, boolean]
 *   | ['processed', number, number, string, string, boolean]
 *   | ['ended', string]
 *   | ['failed', string]} Entry
 */

export class Journal {
  #file

  /** @param {string} path */
  constructor(path) {
    this.#file = openSync(path, 'a')
  }

  /** @param {Entry} entry */
  note(...entry) {
    writeSync(this.#file, `${JSON.stringify(entry)}\n`)
  }
}

/** The entries after `from`, and the position of the next read. @param {string} path @param {number} from */
export function readJournal(path, from = 0) {
  const text = readFileSync(path).subarray(from)
  // The process may have died in the middle of a line.
  const whole = text.subarray(0, text.lastIndexOf('\n') + 1)
  /** @type {Entry[]} */
  const entries = whole
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  return { entries, next: from + whole.length }
}

/** @param {string} data */
export function digestOf(data) {
  return hash('sha1', data)
}
