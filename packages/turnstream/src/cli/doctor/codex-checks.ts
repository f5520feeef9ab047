import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Check, checkNamed, isAtLeast } from '@turnstream/conformance/internal/endpoint/check'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { ResponsesEncoder } from '@turnstream/core/internal/formats/responses/write'
import { findCodex } from '../../codex/binary.ts'
import {
  type CodexProvider,
  type CodexProviderOptions,
  createCodexProvider,
} from '../../codex/provider.ts'
import { usageFault } from '../command.ts'
import { Script } from '../demo/script.ts'
import type { CodexSetting } from '../serve/codex.ts'
import type { Configuration } from '../serve/configuration.ts'
import { readSecret } from '../serve/secrets.ts'
import { messageOf } from '../text.ts'

const INSTALL = 'Install a current one: npm install -g @openai/codex'
/** Older versions offer the model tools of their own. */
const OLDEST = [0, 160] as const
const TESTED = '0.169.0'
const LIMIT_MS = 20_000

const BINARY = checkNamed('codex binary')
const HANDSHAKE = checkNamed('codex handshake')
const TURN = checkNamed('codex turn')
const SKIPPED = [HANDSHAKE, TURN].map(({ skipped }) => skipped('needs a codex binary'))

/** Whether codex can be used. Its turn calls a server on loopback, so it costs nothing. None if codex is not configured. */
export async function codexChecks(configuration: Configuration, clock: Clock): Promise<Check[]> {
  const { codex, env } = configuration
  if (codex === undefined) return []
  const access = accessCheck(codex, env)
  let binary: string
  try {
    binary = findCodex(codex.binary, env['PATH'])
  } catch (error) {
    return [access, BINARY.fail(messageOf(error), INSTALL), ...SKIPPED]
  }
  const version = await versionCheck(binary, env['PATH'])
  if (version.verdict === 'fail') return [access, version, ...SKIPPED]
  // No proxy: the turn stays on this machine.
  const options = { binary, models: codex.models, env: { PATH: env['PATH'] }, clock }
  return [access, version, ...(await runChecks(options))]
}

function accessCheck({ keyVariable, login }: CodexSetting, env: Configuration['env']): Check {
  const { ok, fail } = checkNamed('codex key')
  if (login !== undefined) return ok(`the ${login} login in its home`)
  if (keyVariable === null) return ok('none required')
  const fix = `Set ${keyVariable}, or ${keyVariable}_FILE`
  const fault = usageFault(() => readSecret(env, keyVariable))
  if (fault !== undefined) return fail(fault, `${fix} to a readable file`)
  if (readSecret(env, keyVariable) !== undefined) return ok(`in ${keyVariable}`)
  return fail(`${keyVariable} is not set`, fix)
}

async function versionCheck(binary: string, path = ''): Promise<Check> {
  let printed: string
  try {
    const options = { timeout: LIMIT_MS, env: { PATH: path } }
    const { stdout } = await promisify(execFile)(binary, ['--version'], options)
    printed = stdout.trim()
  } catch (error) {
    return BINARY.fail(`${binary} does not run: ${messageOf(error)}`, INSTALL)
  }
  const [version] = /\d+\.\d+\.\d+/.exec(printed) ?? []
  const found = `${printed} at ${binary}`
  if (version === undefined) return BINARY.warn(`${found} has no version`, INSTALL)
  if (!isAtLeast(version, OLDEST)) {
    return { ...BINARY.fail(found, INSTALL), expected: `${OLDEST.join('.')} or newer` }
  }
  return BINARY.ok(version === TESTED ? found : `${found}; tested with ${TESTED}`)
}

const REPLY = 'codex works'

type Options = Pick<CodexProviderOptions, 'binary' | 'models' | 'env' | 'clock'>

async function runChecks(options: Options) {
  const home = mkdtempSync(join(tmpdir(), 'turnstream-doctor-'))
  const server = responsesServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const logged: string[] = []
  const codex = createCodexProvider({
    ...options,
    home,
    modelProvider: { baseUrl: `http://127.0.0.1:${port}/v1` },
    idleTimeoutMs: LIMIT_MS,
    maxTurnMs: LIMIT_MS,
    requestTimeoutMs: LIMIT_MS,
    onLog: (line) => logged.push(line),
  })
  try {
    return await turnChecks(codex, options.models, logged)
  } finally {
    await codex.stop()
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    rmSync(home, { recursive: true, force: true })
  }
}

/** A Responses API that answers every request with the same text. */
function responsesServer(): Server {
  const model = 'scripted'
  const encoder = new ResponsesEncoder({ turnId: 'doctor', model, createdAt: 0 })
  const events = new Script(model).say(0, REPLY).end()
  const body = events.map((event) => encoder.encodeSse(event)).join('')
  return createServer((request, response) => {
    request.resume().once('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body)
    })
  })
}

async function turnChecks(
  codex: CodexProvider,
  [model = '']: readonly string[],
  logged: readonly string[],
): Promise<Check[]> {
  const prompt = { type: 'message', id: 'prompt', origin: 'user', content: 'Hello' } as const
  const run = { runId: 'doctor', turnId: 'doctor', threadId: 'doctor' }
  const events = await codex.stream({ model, input: [prompt] }, run).toArray()
  const deltas = events.map((event) => (event.type === 'item_delta' ? event.delta_content : ''))
  const end = events.at(-1)
  const error = end?.type === 'response_error' ? end.error.message : 'its answer is missing'
  const more = logged.filter((line) => !error.includes(line)).slice(-1)
  const reason = [error, ...more].join('; ')
  const fix = `Compare with the version that was tested: npm install -g @openai/codex@${TESTED}`
  if (codex.health.state === 'failing') {
    return [HANDSHAKE.fail(reason, fix), TURN.skipped('no handshake')]
  }
  const handshake = HANDSHAKE.ok('completed')
  if (deltas.join('') !== REPLY) return [handshake, TURN.fail(reason, fix)]
  return [handshake, TURN.ok('answered by a scripted Responses API on loopback')]
}
