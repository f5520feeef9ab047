import { fork } from 'node:child_process'
import { constants, readFileSync, statSync } from 'node:fs'
import { access, statfs } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Check, checkNamed } from '@turnstream/conformance/internal/endpoint/check'
import type { Clock } from '@turnstream/core/internal/async/clock'
import type { ErrorCode } from '@turnstream/core/internal/protocol/errors'
import { checkWritable } from '../../log/embedded/directory.ts'
import type { EmbeddedFacts } from '../../log/embedded/inspect.ts'
import { isOpenTo, OTHERS } from '../serve/serve.ts'
import { megabytes, messageOf } from '../text.ts'
import type { Setup } from './doctor.ts'

const STORE = checkNamed('store')
const RECORDS = checkNamed('store records')
const DISK = checkNamed('store disk')
const CHOOSE = 'Choose another directory with --store'

/** Checks the directory of a store, or where it would be created. `runningAt`: a server that uses it answers there. */
export async function embeddedChecks(
  directory: string,
  runningAt: string | undefined,
  { clock, onProgress }: Setup,
): Promise<Check[]> {
  let place = directory
  while (!exists(place) && dirname(place) !== place) place = dirname(place)
  const obstacle = await findObstacle(place, directory)
  if (obstacle !== undefined) return [obstacle, DISK.skipped('the directory is unusable')]
  const { bavail, bsize } = await statfs(place)
  const disk = diskCheck(bavail * bsize, place)
  if (place !== directory) return [STORE.ok(`embedded; ${directory} will be created`), disk]
  const inspection = await inspectInChild(directory, clock, (done, total) => {
    onProgress(`verifying the store: ${Math.floor((100 * done) / total)} %`)
  })
  return [...storeChecks(directory, runningAt, inspection), disk]
}

/** A file, or a directory that this user cannot enter, hides everything below it, so that one is reported. */
function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    return false
  }
}

async function findObstacle(place: string, directory: string): Promise<Check | undefined> {
  try {
    if (!statSync(place).isDirectory()) return STORE.fail(`${place} is not a directory`, CHOOSE)
    await access(place, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch {
    const found =
      place === directory
        ? `this user cannot write ${place}`
        : `this user can neither open nor create ${directory} in ${place}`
    return STORE.fail(found, `Change the owner: sudo chown "$USER" ${place}`)
  }
  try {
    await checkWritable(place)
    return undefined
  } catch (error) {
    // Permissions are not everything: no user can create a file in /proc, or on a full disk.
    return STORE.fail(messageOf(error), CHOOSE)
  }
}

const SALVAGE =
  'Restore a backup, or save what is intact: turnstream export --store <directory> > turns.jsonl'

const FIXES: Partial<Record<ErrorCode, string>> = {
  STORE_READ_ONLY: 'Make it writable (chown, chmod u+rw), or choose another with --store',
  STORE_VERSION:
    'Run the version that wrote it (npm install -g turnstream@latest), or choose another with --store',
  STORE_CORRUPT: SALVAGE,
}

function storeChecks(directory: string, runningAt: string | undefined, inspection: Inspection) {
  if ('facts' in inspection) return factsChecks(directory, inspection.facts)
  if ('crash' in inspection) {
    const found = `the process verifying ${directory} ${inspection.crash}`
    return [STORE.fail(found, 'Run doctor again; if it recurs, restore a backup of the directory')]
  }
  const { code, message } = inspection.error
  if (code !== 'STORE_LOCKED') {
    return [STORE.fail(message, FIXES[code] ?? `${CHOOSE}, and keep this one for analysis`)]
  }
  const records = RECORDS.skipped('not verified: the store is in use')
  return [lockedCheck(message, directory, runningAt), records]
}

function factsChecks(directory: string, { bytes, verification }: EmbeddedFacts): Check[] {
  const size = bytes === undefined ? 'no turns yet' : megabytes(bytes)
  const where = `embedded in ${directory}, ${size}`
  const store = isOpenTo(directory, OTHERS)
    ? STORE.warn(`${where}, accessible to every user of this machine`, `chmod 700 ${directory}`)
    : STORE.ok(where)
  if (bytes === undefined) return [store]
  if (verification === undefined) {
    const found = 'not verified: older format or missing lock files; open it once'
    return [store, RECORDS.skipped(found)]
  }
  const { findings, ...counts } = verification
  const { records, turns, damagedRecords, damagedTurns } = counts
  const read = `${records} records of ${turns} turns`
  if (damagedRecords + damagedTurns === 0) {
    return [store, { ...RECORDS.ok(`${read} verified`), counts }]
  }
  const found = `${damagedRecords} of ${read} are damaged, in ${damagedTurns} turns: ${findings.join('; ')}`
  return [store, { ...RECORDS.fail(found, SALVAGE), counts }]
}

function lockedCheck(message: string, directory: string, runningAt?: string): Check {
  const pid = /used by process (\d+)/.exec(message)?.[1]
  const who = pid === undefined ? 'a process' : `process ${pid}${programOf(pid)}`
  const found = `${directory} is used by ${who}`
  if (runningAt !== undefined) {
    const fix =
      'None needed if this is your server. To start a second one, pass --store <another directory>'
    return STORE.warn(`${found}, probably the server at ${runningAt}`, fix)
  }
  const stop = pid === undefined ? 'Stop it' : `Stop it (kill ${pid})`
  return STORE.fail(found, `${stop}, or choose another directory with --store`)
}

const PLAIN_WORD = /^[a-z][a-z-]{0,20}$/

/** The name of a process, where the system reports it. Its options are omitted: they may contain secrets. */
function programOf(pid: string): string {
  try {
    const [program = '', script = '', command = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      .split('\0')
      .filter((word) => word !== '')
    const words = [program, script].filter((word) => word !== '' && !word.startsWith('-'))
    const shown = [...words.map((word) => basename(word)), PLAIN_WORD.test(command) ? command : '']
    return ` (${shown.join(' ').trim()})`
  } catch {
    return '' // there is no /proc, or the process has just ended
  }
}

/** Below this a commit may fail at any moment; `diskRoom` keeps a megabyte free. */
const LEAST_BYTES = 16e6
const FEW_BYTES = 1e9

/** Exported for tests: no test fills a disk. */
export function diskCheck(bytes: number, place: string): Check {
  const found = `${megabytes(bytes)} free in ${place}`
  const fix = `Free space (df -h ${place}), or shorten --retention`
  if (bytes < LEAST_BYTES) return DISK.fail(found, fix)
  return bytes < FEW_BYTES ? DISK.warn(found, fix) : DISK.ok(found)
}

export type FromChild =
  | { readonly done: number; readonly total: number }
  | { readonly facts: EmbeddedFacts }
  | { readonly error: { readonly code: ErrorCode; readonly message: string } }

type Inspection = Exclude<FromChild, { done: number }> | { readonly crash: string }

// In dist even when this file runs from src: the child process has no compiler.
const CHILD = fileURLToPath(new URL('../../../dist/cli/doctor/verify-child.js', import.meta.url))

/** Reading a few hundred records takes milliseconds, even from a slow disk. */
const STALLED_MS = 60_000

/** Verifies a store in a child process: LMDB can crash, or loop, on damaged pages. */
function inspectInChild(
  directory: string,
  clock: Clock,
  onProgress: (done: number, total: number) => void,
): Promise<Inspection> {
  return new Promise((resolve, reject) => {
    const child = fork(CHILD, [directory], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      // Not the options of this process, such as --inspect.
      execArgv: [],
    })
    let found: Inspection | undefined
    const startTimer = () =>
      clock.after(STALLED_MS, () => {
        found ??= { crash: `made no progress for ${STALLED_MS / 1000} s` }
        child.kill('SIGKILL')
      })
    let stopTimer = startTimer()
    child.on('message', (message: FromChild) => {
      stopTimer()
      stopTimer = startTimer()
      if ('done' in message) onProgress(message.done, message.total)
      else found = message
    })
    child.on('error', reject)
    child.on('close', (code, signal) => {
      stopTimer()
      resolve(found ?? { crash: describeEnd(code, signal) })
    })
  })
}

function describeEnd(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal === null) return `exited with code ${code}`
  // Other signals mean something else, such as out of memory.
  const isCrash = ['SIGSEGV', 'SIGBUS', 'SIGABRT'].includes(signal)
  return `was killed by ${signal}${isCrash ? ': LMDB cannot read the damaged file' : ''}`
}
