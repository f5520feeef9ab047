import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { TurnstreamError } from '../../protocol/errors.ts'
import { suggestion } from '../../protocol/nearest.ts'
import { isTenant } from '../../protocol/tenant.ts'
import { isKeyName, type KeyName, sha256Of } from '../../server/auth/key-ring.ts'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
import { readConfiguration } from '../serve/configuration.ts'
import type { Terminal } from '../terminal.ts'
import { KeysError, withKey, withoutKey } from './changes.ts'
import { KEYS_HELP } from './help.ts'
import { changeKeysFile, readKeysFile } from './keys-file.ts'

interface Request {
  readonly file: string
  readonly json: boolean
  /** What follows the name of the action. */
  readonly words: readonly string[]
}

/** What an action has come to: as an object, and for people what belongs on standard output and beside it. */
interface Outcome {
  readonly json: object
  readonly said: string
  readonly advice: string
}

type Action = (request: Request) => Outcome

const ACTIONS: Record<string, Action> = { add, list, revoke }

const OPTIONS = { file: { type: 'string' }, json: { type: 'boolean', default: false } } as const

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  const [name = '', ...words] = positionals
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined
  if (action === undefined) throw unknownAction(name)
  const { json } = values
  try {
    const { said, advice, ...outcome } = action({
      file: fileOf(values.file, terminal),
      json,
      words,
    })
    await terminal.write(json ? `${JSON.stringify(outcome.json)}\n` : said)
    if (!json) terminal.writeError(advice)
    return EXIT.done
  } catch (error) {
    if (!(error instanceof KeysError || error instanceof TurnstreamError)) throw error
    const { message } = error
    const code = error instanceof TurnstreamError ? { code: error.code } : {}
    if (json) await terminal.write(`${JSON.stringify({ error: { ...code, message } })}\n`)
    else terminal.writeError(`turnstream: ${message}\n`)
    return EXIT.failed
  }
}

function unknownAction(name: string): UsageError {
  const names = Object.keys(ACTIONS)
  if (name === '') return new UsageError(`keys takes one of ${names.join(', ')}`)
  return new UsageError(`keys has no action of that name${suggestion(name, names)}`)
}

/** That of the server, unless another one is named: then its settings need not even be in order. */
function fileOf(option: string | undefined, { env, cwd }: Terminal): string {
  const file = option ?? readConfiguration({ flags: {}, env, cwd }).settings.keysFile
  if (file !== undefined && file.trim() !== '') return resolve(cwd, file)
  throw new UsageError('which file? Name it with --file, or set TURNSTREAM_KEYS_FILE')
}

const KEY_BYTES = 32

function add({ file, words }: Request): Outcome {
  const [tenant, given, ...rest] = words
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
    said: `${key}\n`,
    advice:
      `Keep it now: it is shown this once, and ${file} has only its hash, as ${name} of ${tenant}.\n` +
      `A server that runs with that file knows it after: ${RELOAD}\n`,
  }
}

function list({ file, words }: Request): Outcome {
  if (words.length > 0) throw new UsageError('keys list takes no further words')
  const keys = readKeysFile(file).map(({ sha256, ...key }) => ({
    ...key,
    sha256: sha256.slice(0, 8),
  }))
  const width = (field: 'tenant' | 'name') =>
    Math.max(...keys.map((key) => key[field].length), field.length) + 2
  const [tenants, names] = [width('tenant'), width('name')]
  const rows = [{ tenant: 'tenant', name: 'name', sha256: 'sha256' }, ...keys].map(
    ({ tenant, name, sha256 }) => `${tenant.padEnd(tenants)}${name.padEnd(names)}${sha256}\n`,
  )
  return {
    json: { file, keys },
    said: keys.length === 0 ? '' : rows.join(''),
    advice: keys.length === 0 ? `There are no keys in ${file}.\n` : '',
  }
}

function revoke({ file, words }: Request): Outcome {
  const [tenant, name, ...rest] = words
  if (tenant === undefined || name === undefined || rest.length > 0) {
    throw new UsageError('keys revoke takes a tenant and the name of a key')
  }
  checkNames({ tenant, name })
  changeKeysFile(file, (text) => withoutKey(text, { tenant, name }))
  const isLast = readKeysFile(file).length === 0
  return {
    json: { file, tenant, name },
    said: `${name} of ${tenant} is revoked\n`,
    advice:
      `A server that runs with ${file} takes it until: ${RELOAD}\n` +
      (isLast ? 'It was the last one: then nobody gets in, and no server starts.\n' : ''),
  }
}

const RELOAD = 'kill -HUP <the id of its process>'

/** What is wrong is not repeated: it may be a key that was put into the wrong place. */
function checkNames({ tenant, name }: KeyName): void {
  if (!isTenant(tenant)) {
    throw new UsageError('a tenant has up to 64 small letters, digits, - and _, no sign at first')
  }
  if (!isKeyName(name)) {
    throw new UsageError(
      'the name of a key has up to 64 letters, digits, ., - and _, no sign at first',
    )
  }
}

export const keysCommand: Command = {
  summary: 'make, list and revoke the keys of a gateway',
  help: KEYS_HELP,
  options: OPTIONS,
  words: Object.keys(ACTIONS),
  run,
}
