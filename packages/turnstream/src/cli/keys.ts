import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { TurnstreamError, withoutSummary } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { isTenant } from '@turnstream/core/internal/protocol/names'
import { syncDirectory } from '../codex/durable-file.ts'
import {
  isKeyName,
  type KeyEntry,
  type KeyName,
  linesOfKeysFile,
  MAX_KEYS_FILE_CHARS,
  parseKeysFile,
  sha256Of,
} from '../server/auth/key-ring.ts'
import {
  CommandError,
  defineCommand,
  EXIT,
  errorCode,
  FILE_FAULTS,
  parseAction,
  UsageError,
} from './command.ts'
import { readConfiguration } from './serve/configuration.ts'
import type { Terminal } from './terminal.ts'

/** Each takes the arguments after its name. Returns JSON, and text for standard output and standard error. */
const ACTIONS = { add, list, revoke }
const ACTION_NAMES = ['add', 'list', 'revoke'] as const

export const keys = defineCommand({
  name: 'keys',
  summary: 'create, list and revoke API keys',
  usage: [
    'turnstream keys add <tenant> [name] [--file <file>] [--json]',
    'turnstream keys list [--file <file>] [--json]',
    'turnstream keys revoke <tenant> <name> [--file <file>] [--json]',
  ],
  about: `A key belongs to a tenant, which has its own threads and turns. The first key creates the tenant.
add prints the new key once; the file stores only its hash. A server reads the file when it starts
and on SIGHUP. A reload ends the streams of revoked keys and nothing else.`,
  options: {
    file: {
      value: 'file',
      about: 'keys file (TURNSTREAM_KEYS_FILE, or keysFile in turnstream.config.json)',
    },
    json: { about: 'print one JSON object, or {"error"}' },
  },
  words: { takes: 'an action', min: 0, max: Infinity, choices: ACTION_NAMES },
  examples: [
    'turnstream keys add acme web --file turnstream.keys',
    'turnstream serve --host 0.0.0.0 --keys-file turnstream.keys',
  ],
  exitCodes: '0 done · 1 failed, the file is unchanged · 2 usage error',
  async run({ values, words: [name, ...words] }, terminal) {
    const action = ACTIONS[parseAction('keys', name, ACTION_NAMES)]
    const { text, advice, json } = action(resolveKeysFile(values.file, terminal), words)
    await terminal.write(values.json ? jsonLine(json) : text)
    if (!values.json) terminal.writeError(advice)
    return EXIT.done
  },
})

/** The keys file: `--file`, which needs no valid configuration, or the server's. */
function resolveKeysFile(option: string | undefined, { env, cwd }: Terminal): string {
  const file = option ?? readConfiguration({ flags: {}, env, cwd }).settings.keysFile
  if (file !== undefined && file.trim() !== '') return resolve(cwd, file)
  throw new UsageError('no keys file: pass --file or set TURNSTREAM_KEYS_FILE')
}

const KEY_BYTES = 32
const RELOAD = 'kill -HUP <pid>'
const WAS_LAST =
  'That was the last key. After a reload every request is refused, and no server will start.\n'

function add(file: string, [tenant, given, ...rest]: readonly string[]) {
  if (tenant === undefined || rest.length > 0) {
    throw new UsageError('keys add takes a tenant, and a name for the key')
  }
  const key = `ts_${randomBytes(KEY_BYTES).toString('base64url')}`
  const sha256 = sha256Of(key)
  const name = given ?? `key-${sha256.slice(0, 8)}`
  checkNames({ tenant, name })
  changeKeysFile(file, (text) => withKey(text, { tenant, name, sha256 }))
  return {
    json: { file, tenant, name, key },
    text: `${key}\n`,
    advice:
      `Copy this key now: it is not shown again. ${file} stores its hash as ${tenant}/${name}.\n` +
      `Running servers accept it after a reload: ${RELOAD}\n`,
  }
}

function list(file: string, words: readonly string[]) {
  if (words.length > 0) throw new UsageError('keys list takes no arguments')
  const keys = readKeysFile(file).map((key) => ({ ...key, sha256: key.sha256.slice(0, 8) }))
  const rows = [{ tenant: 'tenant', name: 'name', sha256: 'sha256' }, ...keys]
  const width = (field: 'tenant' | 'name') => Math.max(...rows.map((row) => row[field].length)) + 2
  const [tenants, names] = [width('tenant'), width('name')]
  const lines = rows.map(
    ({ tenant, name, sha256 }) => `${tenant.padEnd(tenants)}${name.padEnd(names)}${sha256}\n`,
  )
  return {
    json: { file, keys },
    text: keys.length === 0 ? '' : lines.join(''),
    advice: keys.length === 0 ? `No keys in ${file}.\n` : '',
  }
}

function revoke(file: string, [tenant, name, ...rest]: readonly string[]) {
  if (tenant === undefined || name === undefined || rest.length > 0) {
    throw new UsageError('keys revoke takes a tenant and a key name')
  }
  checkNames({ tenant, name })
  // Fails if there is no file.
  readKeysFile(file)
  changeKeysFile(file, (text) => withoutKey(text, { tenant, name }))
  const isLast = readKeysFile(file).length === 0
  return {
    json: { file, tenant, name },
    text: `Revoked ${tenant}/${name}.\n`,
    advice: `Servers using ${file} accept it until they reload: ${RELOAD}\n${isLast ? WAS_LAST : ''}`,
  }
}

/** Invalid names are not printed: one may be a key in the wrong place. */
function checkNames({ tenant, name }: KeyName): void {
  const start = 'and starts with a letter or digit'
  if (!isTenant(tenant)) {
    throw new UsageError(`a tenant name has up to 64 lower-case letters, digits, - and _, ${start}`)
  }
  if (!isKeyName(name)) {
    throw new UsageError(`a key name has up to 64 letters, digits, ., - and _, ${start}`)
  }
}

/** Adds a key to the text of a keys file and keeps everything else. */
function withKey(text: string, { tenant, name, sha256 }: KeyEntry): string {
  if (linesOfKeysFile(text).some(({ key }) => key?.tenant === tenant && key.name === name)) {
    const advice = 'choose another name, or revoke it first'
    throw new CommandError(undefined, `${tenant} already has a key named ${name}: ${advice}`)
  }
  const before = text === '' || text.endsWith('\n') ? text : `${text}\n`
  return `${before}${tenant}:${name}:${sha256}\n`
}

function withoutKey(text: string, { tenant, name }: KeyName): string {
  const lines = linesOfKeysFile(text)
  const left = lines.filter(({ key }) => key?.tenant !== tenant || key.name !== name)
  if (left.length === lines.length)
    throw new CommandError(undefined, `${tenant} has no key named ${name}`)
  return left.map((line) => line.text).join('\n')
}

export const readKeysFile = (path: string) => naming(path, () => parseKeysFile(readText(path)))

/** Replaces the file atomically. Keeps mode and owner, because the server may run as another user. */
function changeKeysFile(path: string, change: (text: string) => string): void {
  naming(path, () => {
    const target = statSync(path, { throwIfNoEntry: false }) ? realpathSync(path) : path
    // The fixed name also locks the file against concurrent changes.
    const next = `${target}.new`
    const file = openNew(next)
    try {
      const stats = statSync(target, { throwIfNoEntry: false })
      const text = change(stats === undefined ? '' : readText(target))
      parseKeysFile(text)
      writeFileSync(file, text)
      if (stats !== undefined) {
        fchownSync(file, stats.uid, stats.gid)
        fchmodSync(file, stats.mode & 0o7777)
      }
      fsyncSync(file)
      renameSync(next, target)
    } catch (error) {
      rmSync(next, { force: true })
      throw error
    } finally {
      closeSync(file)
    }
    syncDirectory(dirname(target))
  })
}

function readText(path: string): string {
  const stats = statSync(path)
  if (!stats.isFile()) throw invalid('not a file')
  if (stats.size > MAX_KEYS_FILE_CHARS) throw invalid(`larger than ${MAX_KEYS_FILE_CHARS} bytes`)
  return readFileSync(path, 'utf8')
}

const OWNER_ONLY = 0o600

function openNew(path: string): number {
  try {
    return openSync(path, 'wx', OWNER_ONLY)
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
    throw invalid(`another command is changing it; if none is running, remove ${path}`)
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ...FILE_FAULTS,
  EPERM: 'only its owner can change it',
  EROFS: 'read-only file system',
}

/** Adds the path to errors. The system's message would also name other files. */
function naming<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof TurnstreamError) throw invalid(`${withoutSummary(error)} (${path})`)
    const code = errorCode(error)
    if (code === undefined) throw error
    throw invalid(`${REASONS[code] ?? code} (${path})`)
  }
}

const invalid = (detail: string) => new TurnstreamError('KEYS_FILE_INVALID', detail)
